"""The settings of the site, for Sphinx. Its pages are made by `build.py`, which lies beside this file."""

from typing import ClassVar, Final

from pygments.lexers.data import YamlLexer
from pygments.lexers.special import TextLexer
from pygments.token import Comment
from sphinx.application import Sphinx

project: Final = "ensemble-notebook"
author: Final = "the people who build it"
html_title: Final = "ensemble-notebook"
extensions: Final = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
html_theme: Final = "furo"
html_static_path: Final = ["_static"]
html_favicon: Final = "_static/icon.svg"
html_css_files: Final = ["site.css"]
html_js_files: Final = [("runs.js", {"type": "module"})]
html_show_sphinx: Final = False
html_show_copyright: Final = False
html_copy_source: Final = False
nb_execution_mode: Final = "off"
"""Lessons are shown as they are kept: `make test` executes them."""

nb_render_markdown_format: Final = "myst"
myst_enable_extensions: Final = ["attrs_inline", "html_image"]
myst_heading_anchors: Final = 4
suppress_warnings: Final = ["myst.header", "mystnb.unknown_mime_type"]
autodoc_typehints: Final = "description"
autodoc_typehints_format: Final = "short"
autodoc_typehints_description_target: Final = "documented_params"
maximum_signature_line_length: Final = 88
add_module_names: Final = False
python_use_unqualified_type_names: Final = True
templates_path: Final = ["_templates"]
autodoc_member_order: Final = "bysource"
autodoc_default_options: Final = {"members": True}
autosummary_generate: Final = True
napoleon_use_rtype: Final = False
napoleon_use_ivar: Final = True
napoleon_custom_sections: Final = [("Fields", "params_style")]


class CellLexer(YamlLexer):  # type: ignore[misc]
    """YAML below the line of a magic."""

    name: Final = "ensemble"
    tokens: ClassVar = {**YamlLexer.tokens, "root": [(r"%%?ensemble.*\n", Comment.Preproc), *YamlLexer.tokens["root"]]}


def setup(app: Sphinx) -> None:
    """Tell Sphinx how cells are coloured."""
    app.add_lexer("ensemble", CellLexer)
    app.add_lexer("cron", TextLexer)
