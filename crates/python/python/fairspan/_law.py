"""Laws of congestion control of one's own."""

from __future__ import annotations


class Law:
    """A law of congestion control that is a Python class, for ``Scenario.run(laws={"flow": MyLaw})``.

    A sender makes an object for each connection, with its segment size and its initial window, both in bytes. It calls those of the
    methods below that the class has, and then reads three attributes: ``window``, how many bytes may be under way; ``threshold``,
    what a recovery brings the window down to (ssthresh; None for no bound); and ``pacing_rate``, in bit/s (None for as fast as the
    window lets it).

    ========================  ==============================================================================================
    ``on_sent(sent)``         a packet goes out: ``now``, ``bytes``, ``in_flight``
    ``on_acked(acked)``       data was delivered: ``now``, ``bytes``, ``in_flight``, ``rtt`` (None where it measures none),
                              ``smoothed_rtt``, ``limited`` (the window, and nothing else, stopped the sender before), ``recovering``
    ``on_lost(lost)``         packets were found lost: ``now``, ``bytes``, ``in_flight``, ``begins`` (a new episode; a window of
                              data has one at most)
    ``on_ecn(marked)``        packets came with the mark of congestion; the same attributes
    ``on_timeout(timeout)``   the retransmission timer expired; the same attributes
    ``on_idle(seconds)``      nothing was sent for longer than a timeout, and something will be now
    ``on_recovery(window)``   the sender's loss recovery moves the window: a law of a window takes it over
    ``on_undo()``             the last episode was for nothing
    ========================  ==============================================================================================

    Times are in seconds, sizes in bytes. Everything has to follow from what the methods are told, with no clock and no chance of its
    own, or the same seed does not give the same run. This is slow: each call takes some microseconds, while a law in Rust
    (``examples/own``) takes nanoseconds, and several runs at once take turns.

    >>> import fairspan
    >>> class Fixed(fairspan.Law):
    ...     def __init__(self, segment, initial_window):
    ...         super().__init__(segment, initial_window)
    ...         self.window = 20 * segment
    >>> scenario = fairspan.build(duration="5s").node(["a", "b"]).link("wire", "a", "b", rate="10Mbit", delay="20ms")
    >>> scenario = scenario.flow("f", "a", "b", kind="ftp").scenario()
    >>> results = scenario.run(laws={"f": Fixed})
    >>> 4e6 < results.flows["goodput"][0] < 6e6  # 20 segments in some 42 ms
    True
    """

    window: float | None
    threshold: float | None
    pacing_rate: float | None

    def __init__(self, segment: int, initial_window: int) -> None:
        self.segment = segment
        self.window = initial_window
        self.threshold = None
        self.pacing_rate = None
