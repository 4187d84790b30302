//! Laws of congestion control that are Python classes.
//!
//! The simulator's settings take a function that makes a law (`core::own`), and a function has no memory. So there is a fixed number
//! of functions, each of which makes an object of one class; which one that is, the thread that runs a scenario knows.
//!
//! Cost: two to five microseconds for each event that the class has a method for. Laws of several runs take turns, as the
//! interpreter does one thing at a time.

use crate::failure::input;
use crate::watch::{Failure, fail};
use fairspan_core::congestion::law::{
    Acked as CoreAcked, Congested as CoreCongested, Law as CoreLaw, Sent as CoreSent,
};
use fairspan_core::congestion::{Config, LawMaker, OwnLaw};
use fairspan_core::units::{Bytes, Rate, Span};
use fairspan_sim::model::Transport;
use fairspan_sim::scenario::{File, Run};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// Classes in one study at most.
const MOST: usize = 8;

/// What the simulator's settings take.
type Maker = fn(&Config) -> Box<dyn OwnLaw>;

/// Bytes that no path holds, and that a sender can still add to.
const NO_BOUND: u64 = 1 << 60;

/// A function for each.
const MAKERS: [Maker; MOST] = [make::<0>, make::<1>, make::<2>, make::<3>, make::<4>, make::<5>, make::<6>, make::<7>];

/// A packet goes out.
#[pyclass(frozen, get_all, module = "fairspan")]
pub(crate) struct Sent {
    now: f64,
    bytes: u64,
    in_flight: u64,
}

/// Data was delivered.
#[pyclass(frozen, get_all, module = "fairspan")]
pub(crate) struct Acked {
    now: f64,
    bytes: u64,
    in_flight: u64,
    rtt: Option<f64>,
    smoothed_rtt: f64,
    limited: bool,
    recovering: bool,
}

/// A sign of congestion.
#[pyclass(frozen, get_all, module = "fairspan")]
pub(crate) struct Congested {
    now: f64,
    bytes: u64,
    in_flight: u64,
    begins: bool,
}

/// The classes of a study, and the flows that they are for.
pub(crate) struct Laws {
    flows: Vec<String>,
    classes: Arc<Vec<Py<PyAny>>>,
    failure: Arc<Failure>,
}

/// What a thread makes laws of.
#[derive(Clone)]
struct Context {
    classes: Arc<Vec<Py<PyAny>>>,
    failure: Arc<Failure>,
}

thread_local! {
    static CONTEXT: RefCell<Option<Context>> = const { RefCell::new(None) };
}

/// Whether `pattern` means the flow: its name, `*`, or how names begin with `*` behind.
fn means(pattern: &str, name: &str) -> bool {
    pattern == name || pattern.strip_suffix('*').is_some_and(|begin| name.starts_with(begin))
}

impl Laws {
    /// Checks that there are flows for all of them.
    pub(crate) fn new(laws: Vec<(String, Py<PyAny>)>, file: &File, failure: Arc<Failure>) -> PyResult<Laws> {
        let (flows, classes): (Vec<String>, Vec<Py<PyAny>>) = laws.into_iter().unzip();
        if flows.len() > MOST {
            return Err(input(format!("{} laws; at most {MOST} work here", flows.len())));
        }
        if let (Some(Ok(run)), false) = (file.run(0), flows.is_empty()) {
            for pattern in &flows {
                let mut meant = run.scenario.flows.iter().filter(|flow| means(pattern, &flow.name)).peekable();
                let names =
                    || run.scenario.flows.iter().map(|flow| flow.name.as_str()).take(20).collect::<Vec<_>>().join(", ");
                if meant.peek().is_none() {
                    return Err(input(format!("laws: there is no flow `{pattern}`; there are {}", names())));
                }
                if !meant.any(|flow| matches!(flow.transport, Transport::Tcp(_))) {
                    return Err(input(format!(
                        "laws: `{pattern}` is no TCP flow, and only TCP has a law of congestion control"
                    )));
                }
            }
        }
        Ok(Laws { flows, classes: Arc::new(classes), failure })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Puts them into a run that this thread is about to begin.
    pub(crate) fn put(&self, run: &mut Run) {
        for flow in &mut run.scenario.flows {
            let Transport::Tcp(tcp) = &mut flow.transport else { continue };
            if let Some(place) = self.flows.iter().position(|pattern| means(pattern, &flow.name)) {
                tcp.own_law = Some(LawMaker(MAKERS[place]));
            }
        }
        let context = Context { classes: Arc::clone(&self.classes), failure: Arc::clone(&self.failure) };
        CONTEXT.with(|place| *place.borrow_mut() = Some(context));
    }
}

fn make<const N: usize>(config: &Config) -> Box<dyn OwnLaw> {
    let (segment, window) = (u64::from(config.window.segment), config.window.initial_window);
    // Not held while Python runs, which may begin runs of its own.
    let context = CONTEXT.with(|place| place.borrow().clone());
    let context = context.expect("a thread that runs laws in Python knows their classes");
    let failure = context.failure;
    let object = Python::attach(|py| {
        let made = context.classes[N].call1(py, (segment, window));
        made.map_err(|error| fail(&failure, error)).ok()
    });
    let mut law = PyLaw { object, failure, window, threshold: NO_BOUND, rate: None, has: [false; 8] };
    law.begin();
    Box::new(law)
}

/// The methods that a class may have, in the order of [`PyLaw::has`].
const METHODS: [&str; 8] =
    ["on_sent", "on_acked", "on_lost", "on_ecn", "on_timeout", "on_idle", "on_recovery", "on_undo"];

/// An object of such a class, and what it said last. After an exception it says that for ever, until the run is ended.
struct PyLaw {
    object: Option<Py<PyAny>>,
    failure: Arc<Failure>,
    window: u64,
    threshold: u64,
    rate: Option<Rate>,
    has: [bool; 8],
}

impl fmt::Debug for PyLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PyLaw").field("window", &self.window).finish_non_exhaustive()
    }
}

impl Clone for PyLaw {
    fn clone(&self) -> PyLaw {
        let copied = Python::attach(|py| {
            let copy = py.import("copy")?.getattr("deepcopy")?;
            self.object.as_ref().map(|object| Ok(copy.call1((object,))?.unbind())).transpose()
        });
        let object = copied.unwrap_or_else(|error: PyErr| {
            fail(&self.failure, error);
            None
        });
        PyLaw { object, failure: Arc::clone(&self.failure), ..*self }
    }
}

impl PyLaw {
    /// Looks at which methods there are, and at what the object says first.
    fn begin(&mut self) {
        let Some(object) = &self.object else { return };
        let has = METHODS.map(|name| Python::attach(|py| object.bind(py).hasattr(name).unwrap_or(false)));
        self.has = has;
        self.tell(None, |_, _| Ok(()));
    }

    /// Calls a method if there is one, and asks for the window.
    fn tell(&mut self, method: Option<usize>, call: impl FnOnce(&Bound<'_, PyAny>, &str) -> PyResult<()>) {
        if method.is_some_and(|number| !self.has[number]) {
            return;
        }
        let Some(object) = &self.object else { return };
        let said = Python::attach(|py| {
            let object = object.bind(py);
            call(object, method.map_or("", |number| METHODS[number]))?;
            Ok((bytes(object, "window")?, bytes(object, "threshold")?, rate(object)?))
        });
        match said {
            Ok((window, threshold, rate)) => {
                self.window = window.unwrap_or(NO_BOUND);
                self.threshold = threshold.unwrap_or(NO_BOUND);
                self.rate = rate.map(|rate| Rate::from_bits_per_sec((rate as u64).max(1)));
            }
            Err(error) => {
                fail(&self.failure, error);
                self.object = None;
            }
        }
    }
}

/// Bytes that the object says; `None` for no bound.
fn bytes(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<u64>> {
    let value = object.getattr(name)?;
    if value.is_none() {
        return Ok(None);
    }
    let real: f64 = value.extract().map_err(|_| {
        PyTypeError::new_err(format!("{name} is {value:?}; a law's {name} is a number of bytes, or None for no bound"))
    })?;
    if real.is_nan() || real < 0.0 {
        return Err(PyValueError::new_err(format!(
            "{name} is {real}; a law's {name} is a number of bytes, at least 0"
        )));
    }
    Ok(Some((real as u64).min(NO_BOUND)))
}

/// The rate that the object says; `None` for none.
fn rate(object: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    let value = object.getattr("pacing_rate")?;
    let wrong = || {
        format!(
            "pacing_rate is {value:?}; a law's pacing_rate is a number of bit/s above 0, or None to send as the window allows"
        )
    };
    if value.is_none() {
        return Ok(None);
    }
    let real: f64 = value.extract().map_err(|_| PyTypeError::new_err(wrong()))?;
    if real > 0.0 { Ok(Some(real)) } else { Err(PyValueError::new_err(wrong())) }
}

fn congested(it: &CoreCongested) -> Congested {
    Congested {
        now: it.now.as_nanos() as f64 / 1e9,
        bytes: it.bytes.as_u64(),
        in_flight: it.in_flight.as_u64(),
        begins: it.begins,
    }
}

impl CoreLaw for PyLaw {
    fn on_sent(&mut self, it: &CoreSent) {
        let sent =
            Sent { now: it.now.as_nanos() as f64 / 1e9, bytes: it.bytes.as_u64(), in_flight: it.in_flight.as_u64() };
        self.tell(Some(0), |object, name| object.call_method1(name, (sent,)).map(drop));
    }

    fn on_acked(&mut self, it: &CoreAcked) {
        let acked = Acked {
            now: it.now.as_nanos() as f64 / 1e9,
            bytes: it.bytes.as_u64(),
            in_flight: it.in_flight.as_u64(),
            rtt: it.rtt.map(Span::as_secs_f64),
            smoothed_rtt: it.smoothed_rtt.as_secs_f64(),
            limited: it.limited,
            recovering: it.recovering,
        };
        self.tell(Some(1), |object, name| object.call_method1(name, (acked,)).map(drop));
    }

    fn on_lost(&mut self, it: &CoreCongested) {
        self.tell(Some(2), |object, name| object.call_method1(name, (congested(it),)).map(drop));
    }

    fn on_ecn(&mut self, it: &CoreCongested) {
        self.tell(Some(3), |object, name| object.call_method1(name, (congested(it),)).map(drop));
    }

    fn on_timeout(&mut self, it: &CoreCongested) {
        self.tell(Some(4), |object, name| object.call_method1(name, (congested(it),)).map(drop));
    }

    fn on_idle(&mut self, idle: Span) {
        self.tell(Some(5), |object, name| object.call_method1(name, (idle.as_secs_f64(),)).map(drop));
    }

    fn on_recovery(&mut self, window: Bytes) {
        // Where the law has no threshold, the recovery leads back to its own window.
        let window = if window.as_u64() >= NO_BOUND { self.window } else { window.as_u64() };
        self.tell(Some(6), |object, name| object.call_method1(name, (window,)).map(drop));
    }

    fn on_undo(&mut self) {
        self.tell(Some(7), |object, name| object.call_method0(name).map(drop));
    }

    fn window(&self) -> Bytes {
        Bytes::new(self.window)
    }

    fn threshold(&self) -> Bytes {
        Bytes::new(self.threshold)
    }

    fn wants_delivery_rate(&self) -> bool {
        false
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.rate
    }
}
