"""Agents written with other frameworks, each the same cases, on a model of ours: what their spans say."""
