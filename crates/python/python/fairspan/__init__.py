"""Fairspan from Python: scenarios simulated, captures analysed, fair rates of rings.

The numbers are those of the command line, bit for bit: ``fairspan sim FILE --json`` prints what ``Results.json()`` gives.

>>> import fairspan
>>> scenario = fairspan.build(duration="2s").node(["a", "b"]).link("wire", "a", "b", rate="10Mbit", delay="5ms")
>>> results = scenario.flow("f", "a", "b", kind="ftp").scenario().run(seed=1)
>>> results.flows["name"]
['f']
>>> round(results.flows["goodput"][0] / 1e6, 1) > 5
True
"""

from . import ring, trace
from ._build import Builder, build
from ._law import Law
from ._native import Error, InputError, Problem, ScenarioError, Table, __version__
from ._results import Results
from ._scenario import Scenario, figure, figures
from ._sweep import sweep

__all__ = [
    "Builder",
    "Error",
    "InputError",
    "Law",
    "Problem",
    "Results",
    "Scenario",
    "ScenarioError",
    "Table",
    "__version__",
    "build",
    "figure",
    "figures",
    "ring",
    "sweep",
    "trace",
]
