"""The site of `make docs`, which shows the repository's Markdown as it is.

Sphinx reads from the repository's root, so links between pages are the same here and on a forge.
docs/index.md is the navigation: its sections become captions, and its links the pages below them.
"""

import re

import mermaidx
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

project = "opserve"
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "kernels/opserve_kernels/operators/*/README*.md"]
exclude_patterns = [".*", "benchmarks", "build", "client", "protos", "server", "tests", "tools"]
html_theme = "furo"
html_title = "opserve"
html_extra_path = ["site"]
html_static_path = ["static"]
html_css_files = ["opserve.css"]
html_copy_source = False
html_show_copyright = False
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]

BELOW = {"ARCHITECTURE": "/docs/decisions/*", "docs/reference/operators": "/kernels/**/README"}
"""Pages that the index does not link one by one, by the page below which they are."""
SECTION = re.compile(r"^## (.+)\n((?:(?!## ).*\n?)*)", re.MULTILINE)
PAGE = re.compile(r"\]\(([^)#]+)\.md\)")


class Mermaid(Directive):
    """A diagram, drawn when the site is built: readers need no script."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """The diagram as SVG."""
        drawn = mermaidx.render("\n".join(self.content)).svg()
        unique = drawn.replace("my-svg", f"diagram-{self.lineno}")
        return [nodes.raw("", f'<div class="diagram">{unique}</div>', format="html")]


def navigate(app: Sphinx, page: str, source: list[str]) -> None:
    """Adds the navigation to the pages that have one."""
    if page == app.config.root_doc:
        source[0] += "".join(
            toctree(PAGE.findall(links), caption) for caption, links in SECTION.findall(source[0])
        )
    elif page in BELOW:
        source[0] += toctree([BELOW[page]])


def toctree(pages: list[str], caption: str = "") -> str:
    """A table of contents that is shown in the navigation only."""
    options = f":hidden:\n:glob:\n:caption: {caption}" if caption else ":hidden:\n:glob:"
    return "\n\n```{toctree}\n" + options + "\n\n" + "\n".join(pages) + "\n```\n"


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_directive("mermaid", Mermaid)
    app.connect("source-read", navigate)
