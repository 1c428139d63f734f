"""What a person sees and types in IPython and Jupyter: the magics, the timeline widget, the static pictures.

The only layer, with the command line, that knows IPython and widgets. Nothing below imports it: it registers itself
through the hook in ``domain.seams.rich_display``.
"""
