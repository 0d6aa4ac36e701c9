"""make pictures: draws docs/pictures/kernels-*.svg, the memory accesses of the kernels."""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
INK, PALE, PADDING = "#2b2d33", "#f3f4f6", "#dcdfe4"
BLUE, ORANGE, GREEN, PINK = "#7fb3d5", "#f0b26b", "#8fc79a", "#dba3c4"

Axes = Any
"""An object of matplotlib, which is not installed where the type checkers run."""
Colours = Sequence[Sequence[str]]


def main() -> None:
    """Writes all pictures."""
    FOLDER.mkdir(exist_ok=True)
    pyplot: Any = import_module("matplotlib.pyplot")
    pyplot.rcParams.update({"svg.hashsalt": "opserve", "svg.fonttype": "none", "font.size": 9})
    for name, draw, size in PICTURES:
        figure, axes = pyplot.subplots(figsize=(size[0] / 2.6, size[1] / 2.6))
        axes.set(xlim=(0, size[0]), ylim=(size[1], 0), aspect="equal")
        axes.axis("off")
        draw(axes)
        figure.savefig(
            FOLDER / f"kernels-{name}.svg",
            bbox_inches="tight",
            facecolor="white",
            metadata={"Date": None},
        )
        pyplot.close(figure)


def cells(axes: Axes, x: float, y: float, colours: Colours, *, size: float = 0.5) -> None:
    """Draws rows of squares from (x, y) on."""
    rectangle: Any = import_module("matplotlib.patches").Rectangle
    for i, row in enumerate(colours):
        for j, colour in enumerate(row):
            corner = (x + j * size, y + i * size)
            axes.add_patch(rectangle(corner, size, size, facecolor=colour, edgecolor=INK, lw=0.6))


def block(rows: int, columns: int, colour: str = PALE) -> list[list[str]]:
    """Draws squares of one colour."""
    return [[colour] * columns for _ in range(rows)]


def label(axes: Axes, x: float, y: float, *lines: str) -> None:
    """Writes lines of text from (x, y) on."""
    axes.text(x, y, "\n".join(lines), va="top", color=INK, linespacing=1.35)


def arrow(axes: Axes, begin: tuple[float, float], end: tuple[float, float]) -> None:
    """Draws an arrow."""
    axes.annotate(
        "", xy=end, xytext=begin, arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.1}
    )


def draw_packed(axes: Axes) -> None:
    """Draws a tap as an offset into the padded copy."""
    copy = block(7, 9, PADDING)
    for i in range(1, 6):
        copy[i][1:8] = [PALE] * 7
    for j in range(2, 8):
        copy[2][j] = BLUE
    for j in range(1, 5):
        copy[3][j] = BLUE
    label(axes, 0, 0, "padded copy of a block", "(one channel of the source)")
    cells(axes, 0, 1.3, copy)
    label(
        axes,
        0,
        5.1,
        "a tile of positions, moved",
        "by the offset of a tap:",
        "two runs of the copy (blue)",
    )
    panel = block(6, 10)
    panel[2] = [BLUE] * 10
    label(axes, 7, 0, "panel of pixels", "rows: channels x taps, columns: positions")
    cells(axes, 7, 1.3, panel)
    arrow(axes, (4.6, 2.6), (6.9, 2.6))
    weights = block(6, 4)
    weights[2] = [ORANGE] * 4
    label(axes, 7, 5.1, "panel of the weight,", "columns: channels")
    cells(axes, 7, 6.3, weights)
    sums = block(4, 10, GREEN)
    label(axes, 15, 2.2, "tile of sums, in registers:", "channels x positions")
    cells(axes, 15, 3.5, sums)
    arrow(axes, (12.1, 2.9), (14.9, 4.2))
    arrow(axes, (9.1, 7.5), (14.9, 5.0))
    label(axes, 12.4, 6.4, "row of one panel times", "row of the other, added")


def draw_phases(axes: Axes) -> None:
    """Draws how a stride of 2 splits positions and taps."""
    result = [[(BLUE, ORANGE), (GREEN, PINK)][i % 2][j % 2] for i in range(6) for j in range(6)]
    label(axes, 0, 0, "result, stride 2:", "four phases")
    cells(axes, 0, 1.3, [result[6 * i : 6 * i + 6] for i in range(6)])
    taps = [[BLUE, ORANGE, BLUE], [GREEN, PINK, GREEN], [BLUE, ORANGE, BLUE]]
    label(axes, 5, 0, "taps of a 3 x 3 kernel:", "each meets one phase")
    cells(axes, 5, 1.3, taps)
    for i, (colour, shape) in enumerate(
        ((BLUE, (2, 2)), (ORANGE, (2, 1)), (GREEN, (1, 2)), (PINK, (1, 1)))
    ):
        y = 0.2 + 1.3 * i
        cells(axes, 10.5, y, block(*shape, colour))
        label(axes, 12, y + 0.1, "correlated with grad_output")
        arrow(axes, (18.4, y + 0.35), (19.4, y + 0.35))
        cells(axes, 19.6, y - 0.1, block(2, 4, colour), size=0.45)
    label(
        axes,
        5,
        3.2,
        "no zeros are multiplied:",
        "9 taps in four small",
        "correlations instead of",
        "36 over a copy with gaps",
    )
    label(axes, 10.5, 5.6, "the phases of a row are interleaved on their way into the result")


def draw_dots(axes: Axes) -> None:
    """Draws the weight's gradient."""
    label(axes, 0, 0, "grad_output, some channels")
    cells(axes, 0, 0.8, block(4, 14, ORANGE))
    label(axes, 0, 3.3, "the image under one tap, some", "(channel, tap)")
    cells(axes, 0, 4.6, block(3, 14, BLUE))
    arrow(axes, (7.1, 2.0), (9.9, 3.0))
    arrow(axes, (7.1, 5.1), (9.9, 3.9))
    label(axes, 10, 1.1, "sums over positions,", "a vector each")
    cells(axes, 10, 2.5, block(4, 3, GREEN))
    label(axes, 0, 6.4, "positions lie side by side: whole vectors")
    arrow(axes, (11.6, 3.3), (14, 3.3))
    label(
        axes,
        14.2,
        2.5,
        "each vector is added up",
        "once a chunk of positions,",
        "not once a position",
    )


def draw_outer(axes: Axes) -> None:
    """Draws the weight's gradient for many channels."""
    label(axes, 0, 0, "pixels of grad_output,", "channels side by side")
    output = block(6, 4)
    output[1] = [ORANGE] * 4
    cells(axes, 0, 1.3, output)
    label(axes, 5, 0, "pixels of the image,", "channels side by side")
    image = block(6, 8)
    image[3] = [BLUE] * 8
    cells(axes, 5, 1.3, image)
    label(axes, 0, 4.6, "a tap's table: which pixels meet,", "those in padding left out")
    arrow(axes, (2.1, 2.1), (4.9, 3.0))
    label(axes, 12.5, 0.9, "sums of one tap, in registers:", "channels x channels")
    cells(axes, 12.5, 2.3, block(4, 8, GREEN))
    arrow(axes, (9.1, 3.1), (12.4, 3.1))
    label(axes, 12.5, 4.6, "each pixel adds an outer product")


def draw_winograd(axes: Axes) -> None:
    """Draws Winograd's F(4x4, 3x3)."""
    label(axes, 0, 0, "image: tiles of 6 x 6,", "4 apart")
    image = block(10, 10)
    for i in range(6):
        image[i][:6] = [BLUE] * 6
    for i in range(6):
        for j in range(4, 10):
            image[i][j] = PINK if image[i][j] == BLUE else ORANGE
    cells(axes, 0, 1.3, image, size=0.42)
    label(axes, 5.6, 0, "transformed: 36 points,", "each a matrix of its own")
    for k in range(3):
        cells(axes, 5.8 + 0.25 * k, 1.5 + 0.25 * k, block(4, 6, BLUE), size=0.42)
    label(axes, 5.6, 4.2, "channels x tiles")
    label(axes, 5.6, 5.2, "kernels,", "transformed once")
    for k in range(3):
        cells(axes, 5.8 + 0.25 * k, 6.6 + 0.25 * k, block(4, 4, ORANGE), size=0.42)
    arrow(axes, (4.3, 2.6), (5.7, 2.6))
    arrow(axes, (9, 3.0), (11, 4.0))
    arrow(axes, (8.2, 7.2), (11, 5.2))
    label(axes, 11.1, 1.4, "36 products, by the same", "micro-kernel as packed")
    for k in range(3):
        cells(axes, 11.2 + 0.25 * k, 3.2 + 0.25 * k, block(4, 6, GREEN), size=0.42)
    arrow(axes, (14.5, 4.4), (17, 4.4))
    label(axes, 17, 2.2, "tiles of 4 x 4", "of the result")
    cells(axes, 17.2, 3.5, block(4, 4, GREEN))
    label(axes, 11.1, 6.6, "36 multiplications for 16 sums of 9 products:", "a quarter of 144")


def draw_depthwise(axes: Axes) -> None:
    """Draws the depthwise kernel: rows of one channel."""
    label(axes, 0, 0, "rows of a channel")
    rows = block(5, 12)
    for i, colour in enumerate((BLUE, ORANGE, GREEN)):
        rows[i + 1] = [colour] * 12
    cells(axes, 0, 0.9, rows)
    label(axes, 0, 3.7, "each row is read at three shifts,", "once a tap, in vectors")
    label(axes, 7.4, 0, "taps, in registers")
    cells(axes, 8, 0.9, [[BLUE] * 3, [ORANGE] * 3, [GREEN] * 3])
    arrow(axes, (6.1, 2.1), (7.8, 1.7))
    arrow(axes, (9.6, 1.7), (11.4, 1.7))
    label(axes, 11.6, 0, "a row of the result:", "nine products a position")
    cells(axes, 11.6, 1.4, block(1, 12, PINK))
    label(
        axes,
        7.4,
        3.2,
        "the gradient of the weight keeps nine sums",
        "instead, and reads the same rows",
    )


def draw_fold(axes: Axes) -> None:
    """Draws col2im by rows."""
    label(axes, 0, 0, "columns: one row for each element of a block (3 x 3)")
    rows = block(9, 16)
    for i, colour in ((1, BLUE), (4, ORANGE), (7, GREEN)):
        rows[i] = [colour] * 16
    cells(axes, 0, 0.9, rows, size=0.42)
    arrow(axes, (6.9, 2.8), (9, 2.8))
    label(
        axes, 9.2, 0.6, "a row of the image takes the parts", "that land in it, shifted, in order"
    )
    for i, colour in enumerate((BLUE, ORANGE, GREEN)):
        cells(axes, 9.2 + 0.42 * i, 2.2 + 0.6 * i, block(1, 8, colour), size=0.42)
    label(axes, 9.2, 4.2, "sums stay in the first-level cache")


Picture = tuple[str, Callable[[Axes], None], tuple[float, float]]
PICTURES: tuple[Picture, ...] = (
    ("packed", draw_packed, (21, 9.6)),
    ("phases", draw_phases, (22, 6.4)),
    ("dots", draw_dots, (20, 7)),
    ("outer", draw_outer, (20, 6)),
    ("winograd", draw_winograd, (21, 9.2)),
    ("depthwise", draw_depthwise, (19, 5)),
    ("fold", draw_fold, (18, 5)),
)

if __name__ == "__main__":
    main()
