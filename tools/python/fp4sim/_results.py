"""Tables and results: small objects to look at, whose cells are numpy arrays and plain values."""
import html
import math

from ._core import Error

WIDTH = 80
SHOWN = 30  # rows of a table that are printed


def short(text, width=WIDTH):
    """One line of at most `width` columns."""
    text = " ".join(text.split())
    return text if len(text) <= width else text[: width - 2] + ".." if not text.endswith(">") else text[: width - 3] + "..>"


def shown(cell):
    """A cell as text: numbers with six digits, nothing for what is missing."""
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if isinstance(cell, tuple):
        return str(cell)
    if isinstance(cell, list):
        return " .. ".join(map(shown, cell)) if len(cell) == 2 else ", ".join(map(shown, cell))
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def _cell(name, cell):
    """A shape as Python writes one; other lists of two are ends of an interval."""
    return tuple(cell) if name == "shape" and isinstance(cell, list) else cell


def _column(cells):
    from ._numpy import np

    if all(isinstance(cell, int) and not isinstance(cell, bool) for cell in cells):
        return np.array(cells, np.int64)
    if all(cell is None or (isinstance(cell, (int, float)) and not isinstance(cell, bool)) for cell in cells):
        return np.array([np.nan if cell is None else cell for cell in cells], np.float64)
    column = np.empty(len(cells), object)
    for row, cell in enumerate(cells):  # lists of one length are cells, too
        column[row] = cell
    return column


class Picture(str):
    """The path of an SVG, which a notebook shows as a picture."""

    def _repr_svg_(self):
        with open(self, encoding="utf-8") as file:
            return file.read()


class Table(dict):
    """{column: numpy array}: numbers as float64 (NaN where there is none) or int64, everything else as objects.

    print() shows it as text, a notebook as a table; to_pandas() and to_polars() hand it on.
    """

    @classmethod
    def of(cls, rows, columns=None) -> "Table":
        """The table of rows [{column: cell}]; columns in the order in which they appear."""
        names = list(columns or dict.fromkeys(name for row in rows for name in row))
        return cls({name: _column([_cell(name, row.get(name)) for row in rows]) for name in names})

    @property
    def height(self) -> int:
        """Rows."""
        return len(next(iter(self.values()), ()))

    def rows(self) -> "list[dict]":
        """[{column: cell}]"""
        lists = [column.tolist() for column in self.values()]
        return [dict(zip(self, cells)) for cells in zip(*lists)]

    def to_pandas(self):
        """A pandas DataFrame."""
        import pandas

        return pandas.DataFrame(self)

    def to_polars(self):
        """A polars DataFrame; words and what holds several values as text."""
        import polars

        return polars.DataFrame({name: column.tolist() if column.dtype != object else [
            cell if cell is None or isinstance(cell, (str, bool)) else str(cell) for cell in column.tolist()]
            for name, column in self.items()})

    def plot(self, x: str, y: str, *, by: str = "", ax=None, **keywords):
        """A scatter plot of two columns by matplotlib, one colour for each value of column `by`; returns its axes."""
        for name in filter(None, (x, y, by)):
            if name not in self:
                raise Error(f"plot: no column '{name}'; accepted: {', '.join(self)}")
        ax = ax or _axes()
        groups = {None: slice(None)} if not by else {value: self[by] == value for value in dict.fromkeys(self[by].tolist())}
        for value, chosen in groups.items():
            ax.scatter(self[x][chosen], self[y][chosen], label=None if value is None else str(value), **keywords)
        return _labelled(ax, x, y, legend=bool(by))

    def __repr__(self):
        return short(f"<fp4sim.{type(self).__name__} {self.height} x {len(self)}: {', '.join(self)}>")

    def __str__(self):
        cells = [[shown(cell) for cell in row.values()] for row in self.rows()[:SHOWN]]
        lines = [list(self), *cells]
        widths = [max(map(len, column)) for column in zip(*lines)]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
        more = self.height - len(cells)
        return "\n".join(text + ([f".. and {more} rows more"] if more > 0 else []))

    def _repr_html_(self):
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(shown(cell))}</td>" for cell in row.values()) + "</tr>"
                       for row in self.rows()[:SHOWN])
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{self.height} rows</p>"


class Result(dict):
    """What a command prints with --json, as a dict; its fields are attributes, too. `table` has its rows."""

    rows_in = "rows"

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def table(self) -> Table:
        """The rows of the result; of a result without them its first list of objects."""
        lists = (value for value in self.values() if isinstance(value, list) and value and isinstance(value[0], dict))
        return Table.of(self[self.rows_in] if self.rows_in in self else next(lists, []))

    def _line(self):
        rows = self.get(self.rows_in)
        return f"{len(rows)} {self.rows_in}" if isinstance(rows, list) else ", ".join(self)

    def __repr__(self):
        return short(f"<fp4sim.{type(self).__name__} {self._line()}>")

    def _shown(self):
        """Its rows, or a table of its plain fields where it has none."""
        if isinstance(self.get(self.rows_in), list):
            return self.table
        return Table.of([{"field": name, "value": shown(value)} for name, value in self.items()
                         if not isinstance(value, (dict, list))])

    def __str__(self):
        return str(self._shown())

    def _repr_html_(self):
        return self._shown()._repr_html_()


UNITS = {"overhead": "overhead [share of an ideal FP4 step]",
         "quantisation_overhead": "quantisation overhead [share of the step with free quantisation]",
         "step_time_s": "step time [s]", "energy_j": "energy of a step [J]", "energy": "energy of a step [J]",
         "price": "price of a step [USD]", "points": "points of the cost model", "loss_gap": "loss gap to fp32",
         "loss_hp_gap": "loss gap to fp32, forward in high precision", "loss": "validation loss",
         "loss_hp": "validation loss, forward in high precision"}


class Front(Result):
    """A Pareto front: points with their simultaneous intervals y_low .. y_high, and whether they lie on_front."""

    rows_in = "points"

    def plot(self, *, task: str = "", ax=None):
        """Quality against cost with its intervals by matplotlib, the front in colour; returns its axes."""
        ax = ax or _axes()
        points = [p for p in self["points"] if p.get("y") is not None and p.get("x") is not None
                  and (not task or p.get("task") == task)]
        for on_front, colour in ((False, "0.7"), (True, "C0")):
            some = [p for p in points if bool(p["on_front"]) is on_front]
            low, high = ([abs(p["y"] - (p[end] if p.get(end) is not None else p["y"])) for p in some]
                         for end in ("y_low", "y_high"))
            if some:
                ax.errorbar([p["x"] for p in some], [p["y"] for p in some], yerr=[low, high], fmt="o", color=colour,
                            label="on the front" if on_front else "dominated or undecided")
        for p in points:
            if p["on_front"]:
                ax.annotate(str(p.get("recipe") or p["config_hash"]), (p["x"], p["y"]), fontsize="small")
        return _labelled(ax, self["x"], self["y"], legend=bool(points))


class Effects(Result):
    """Differences between the values of an axis, each with its simultaneous interval."""

    rows_in = "effects"

    def plot(self, *, ax=None):
        """A forest plot by matplotlib: each difference and its interval; returns its axes."""
        ax = ax or _axes()
        rows = [r for r in self["effects"] if isinstance(_of(r, "effect", "difference", "mean"), (int, float))]
        at = range(len(rows))
        middle = [_of(r, "effect", "difference", "mean") for r in rows]
        ends = [[abs(m - (m if r.get(end) is None else r[end])) for m, r in zip(middle, rows)] for end in ("low", "high")]
        ax.errorbar(middle, list(at), xerr=ends, fmt="o")
        ax.axvline(0, color="0.7")
        ax.set_yticks(list(at))
        ax.set_yticklabels([" ".join(str(r[k]) for k in ("task", "axis", "value") if r.get(k) is not None) for r in rows])
        ax.set_xlabel(f"difference of {self.get('y', 'loss')}")
        return ax


def _of(row, *names):
    return next((row[name] for name in names if name in row), None)


def _axes():
    import matplotlib.pyplot as plt

    return plt.subplots()[1]


def _labelled(ax, x, y, legend):
    ax.set_xlabel(UNITS.get(x, x))
    ax.set_ylabel(UNITS.get(y, y))
    if legend:
        ax.legend()
    return ax
