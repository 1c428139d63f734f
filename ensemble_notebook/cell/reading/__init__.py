"""From YAML nodes to drafts: values by field, each with its place. Names are still names."""
