//! How the terminal page looks. It is drawn anew whole; the terminal gets what differs.

use super::model::{Key, Model, Row as Link, Seen};
use crate::cmd::status::ways;
use fairspan_live::status::{FlowStatus, Status};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize as _};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Borders, Cell, Clear, Paragraph, Row, Sparkline, Table, Wrap};

/// What the lower half shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tab {
    #[default]
    Why,
    Flows,
    Events,
}

impl Tab {
    const ALL: [(Tab, &'static str); 3] = [(Tab::Why, "why"), (Tab::Flows, "flows"), (Tab::Events, "events")];

    pub(super) fn next(self) -> Tab {
        match self {
            Tab::Why => Tab::Flows,
            Tab::Flows => Tab::Events,
            Tab::Events => Tab::Why,
        }
    }
}

/// What the person at the terminal has chosen.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// The link that is marked, wherever it stands now; without one the first.
    pub(super) marked: Option<Key>,
    pub(super) tab: Tab,
    /// Lines of the lower half that are above its top.
    pub(super) scrolled: u16,
    pub(super) help: bool,
    /// What became of the last wish.
    pub(super) message: Option<String>,
}

impl Choice {
    /// Where the marked link stands.
    pub(super) fn place(&self, rows: &[Link<'_>]) -> usize {
        let is_marked = |row: &Link<'_>| Some(row.key()) == self.marked;
        rows.iter().position(is_marked).unwrap_or(0)
    }
}

const KEYS: &str = "q quit  p pause  s sort  ↑↓ choose  o out/in  Tab why/flows/events  ? help";
const HELP: [&str; 10] = [
    "q, Esc, Ctrl-C   end",
    "p, space         pause; again: go on",
    "s                sort links another way",
    "↑ ↓, k j         choose a link",
    "PgUp PgDn        move the lower half",
    "o                take the chosen channel out of use while",
    "                 there are others; again: take it in",
    "Tab              lower half: why, flows, events",
    "",
    "rates in Mbit/s; share: of what its peer sends",
];

/// Draws all of it.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, choice: &Choice, clock: &str) {
    let area = frame.area();
    let rows = model.rows();
    // The links have as much as they need, and half of the screen at most.
    let wanted = u16::try_from(rows.len() + 1).unwrap_or(u16::MAX);
    let links = wanted.clamp(2, (area.height / 2).max(2));
    let plots = if area.height >= 20 { 5 } else { 0 };
    let [top, middle, plot, lower, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(links),
        Constraint::Length(plots),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    title(frame, top, model, clock);
    let chosen = choice.place(&rows);
    table(frame, middle, model, &rows, chosen);
    if let Some(row) = rows.get(chosen) {
        plot_link(frame, plot, model, row);
    }
    lower_half(frame, lower, model, choice, rows.get(chosen));
    let line = choice.message.as_deref().unwrap_or(KEYS);
    frame.render_widget(Paragraph::new(line).style(Style::new().add_modifier(Modifier::DIM)), bottom);
    if choice.help {
        help(frame, area);
    }
}

fn title(frame: &mut Frame<'_>, area: Rect, model: &Model, clock: &str) {
    let names: Vec<&str> = model.daemons.iter().map(|daemon| daemon.name.as_str()).collect();
    let mut line = format!("fairspan top  {}  {clock}  links {}", names.join(" "), model.sort.word());
    if model.paused {
        line += "  PAUSED";
    }
    frame.render_widget(Paragraph::new(line).style(Style::new().add_modifier(Modifier::REVERSED)), area);
}

fn number(value: Option<f64>, digits: usize) -> String {
    match value {
        Some(value) if value >= 9999.5 => format!("{value:.0}"),
        Some(value) => format!("{value:.digits$}"),
        None => "-".to_owned(),
    }
}

fn table(frame: &mut Frame<'_>, area: Rect, model: &Model, rows: &[Link<'_>], chosen: usize) {
    if rows.is_empty() {
        let text = match (model.has_asked, model.daemons.first()) {
            (false, _) => "asking …".to_owned(),
            (true, None) => "no daemon is running; `fairspan up FILE` starts one".to_owned(),
            (true, Some(daemon)) => match &daemon.problem {
                Some(problem) => format!("{}: {problem}", daemon.name),
                None => format!("{} has no links", daemon.name),
            },
        };
        return frame.render_widget(Paragraph::new(text), area);
    }
    let with_daemon = model.daemons.len() > 1;
    let heads = ["link", "state", "sends", "receives", "carries", "rtt ms", "loss %", "queue", "share"];
    let header = Row::new(heads.iter().enumerate().map(|(n, head)| cell(head, n >= 2)));
    let room = usize::from(area.height.saturating_sub(1)).max(1);
    // The one that is marked is on the screen.
    let first = (chosen + 1).saturating_sub(room);
    let shown = rows.iter().enumerate().skip(first).take(room).map(|(place, row)| {
        let link = row.link;
        let mut name = if link.of == link.name { link.name.clone() } else { format!("{} {}", link.of, link.name) };
        if with_daemon {
            name = format!("{} {name}", row.daemon.name);
        }
        let colour = if link.up { Color::Green } else { Color::Red };
        let state = if link.taken_out == Some(true) { "out" } else { link.state.as_str() };
        let cells = [
            Cell::new(name),
            Cell::new(state.to_owned()).style(Style::new().fg(colour)),
            cell(&number(link.sent_mbit, 2), true),
            cell(&number(link.received_mbit, 2), true),
            cell(&number(link.capacity_mbit, 1), true),
            cell(&number(link.delay_ms, 1), true),
            cell(&number(link.loss.map(|share| share * 100.0), 2), true),
            cell(&number(link.queue_ms, 1), true),
            cell(&row.share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0)), true),
        ];
        let style = if place == chosen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        Row::new(cells).style(style)
    });
    let widths = [
        Constraint::Min(14),
        Constraint::Length(10),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(7),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(5),
    ];
    let table = Table::new(shown, widths).column_spacing(1).header(header.style(Style::new().bold()));
    frame.render_widget(table, area);
}

fn cell(text: &str, right: bool) -> Cell<'static> {
    let text = Text::from(text.to_owned());
    Cell::new(if right { text.right_aligned() } else { text })
}

/// The marked link over the last minutes: what it sends, receives, and how long packets take.
fn plot_link(frame: &mut Frame<'_>, area: Rect, model: &Model, row: &Link<'_>) {
    let note = row.link.note.as_deref().map_or_else(String::new, |note| format!(", {note}"));
    let title = format!(" {} {}: {}{note} ", row.link.of, row.link.name, row.link.state);
    let block = Block::new().borders(Borders::TOP).title(title);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if inner.height < 3 || inner.width < 30 {
        return;
    }
    let key = row.key();
    let width = usize::from(inner.width.saturating_sub(26));
    let seen: Vec<&Seen> = model.seen(&key).rev().take(width).collect();
    type Read = fn(&Seen) -> Option<f64>;
    let lines: [(&str, &str, Read, Color); 3] = [
        ("sends", "Mbit/s", |seen| seen.up.then_some(seen.sent), Color::Cyan),
        ("receives", "Mbit/s", |seen| seen.up.then_some(seen.received), Color::Yellow),
        ("rtt", "ms", |seen| seen.delay.filter(|_| seen.up), Color::Magenta),
    ];
    let rows = Layout::vertical([Constraint::Length(1); 4]).split(inner);
    for ((name, unit, value, colour), line) in lines.into_iter().zip(rows.iter()) {
        let most = seen.iter().filter_map(|seen| value(seen)).fold(0.0, f64::max);
        let [left, right] = Layout::horizontal([Constraint::Length(26), Constraint::Min(1)]).areas(*line);
        frame.render_widget(Paragraph::new(format!("{name:<8} to {:>7} {unit}", number(Some(most), 1))), left);
        // In thousandths of the largest, so that small rates are seen too; what is not known is left out.
        let data = seen.iter().rev().map(|seen| value(seen).map(|v| scaled(v, most)));
        let missing = Style::new().fg(Color::Red);
        let spark = Sparkline::default().data(data).max(1000).style(Style::new().fg(colour));
        frame.render_widget(spark.absent_value_symbol("x").absent_value_style(missing), right);
    }
}

fn scaled(value: f64, most: f64) -> u64 {
    if most > 0.0 { (value / most * 1000.0).round().clamp(0.0, 1000.0) as u64 } else { 0 }
}

fn lower_half(frame: &mut Frame<'_>, area: Rect, model: &Model, choice: &Choice, row: Option<&Link<'_>>) {
    let mut title = vec![Span::raw(" ")];
    for (tab, name) in Tab::ALL {
        let style = if tab == choice.tab { Style::new().reversed() } else { Style::new() };
        title.extend([Span::styled(format!(" {name} "), style), Span::raw(" ")]);
    }
    let block = Block::new().borders(Borders::TOP).title(Line::from(title));
    let status = row.and_then(|row| row.daemon.status.as_deref());
    let lines = match choice.tab {
        Tab::Why => status.map(|status| why(status, row)).unwrap_or_default(),
        Tab::Flows => status.map(flows).unwrap_or_default(),
        Tab::Events => events(model),
    };
    let text = Paragraph::new(lines).wrap(Wrap { trim: false }).scroll((choice.scrolled, 0)).block(block);
    frame.render_widget(text, area);
}

fn plain(text: impl Into<String>) -> Line<'static> {
    Line::from(text.into())
}

/// What the peer of the marked link decided, and why.
fn why(status: &Status, row: Option<&Link<'_>>) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if let Some(problem) = row.and_then(|row| row.daemon.problem.as_ref()) {
        lines.push(plain(format!("The daemon does not answer: {problem}.")).red());
    }
    let of = row.map(|row| row.link.of.as_str());
    for peer in status.peers.iter().filter(|peer| of == Some(peer.name.as_str())) {
        for told in &peer.explained {
            let by = if told.channels.is_empty() { "no channel".to_owned() } else { told.channels.join(", ") };
            lines.push(plain(format!("{} ({}): by {by}", told.name, told.mode)).bold());
            lines.extend(told.because.iter().map(|sentence| plain(format!("  {sentence}"))));
            lines
                .extend(told.would_change_if.iter().map(|sentence| plain(format!("  would change: {sentence}")).dim()));
        }
    }
    if lines.is_empty() {
        let chooses = "The daemon of this link chooses nothing by what it measures: it does what is configured.";
        lines.push(plain(chooses));
    }
    lines
}

/// The flows by rate.
fn flows(status: &Status) -> Vec<Line<'static>> {
    let peers = status.peers.iter().filter_map(|peer| peer.queue.as_ref()?.sharing.as_ref());
    let shape = status.shape.iter().flat_map(|shape| shape.directions.iter().map(|direction| &direction.sharing));
    let gateway = status.gateway.iter().filter_map(|gateway| gateway.queue.as_ref()?.sharing.as_ref());
    let splits = status.peers.iter().filter_map(|peer| peer.split.as_ref()?.queue.as_ref()?.sharing.as_ref());
    let all = peers.chain(splits).chain(shape).chain(gateway).flat_map(|sharing| &sharing.flows);
    let mut all: Vec<&FlowStatus> = all.filter(|flow| flow.mbit > 0.0 || flow.waiting > 0).collect();
    all.sort_by(|a, b| b.mbit.total_cmp(&a.mbit));
    if all.is_empty() {
        return vec![plain("No flow sent anything in the last second.")];
    }
    let mut lines = vec![plain(" Mbit/s  waiting  dropped  flow").bold()];
    for flow in all {
        lines.push(plain(format!("{:>7.2}  {:>7}  {:>7}  {}", flow.mbit, flow.waiting, flow.dropped, flow.flow)));
        lines.extend(way(flow));
    }
    lines
}

/// By which channels a flow goes, and of what it is.
fn way(flow: &FlowStatus) -> Option<Line<'static>> {
    let class = flow.class.as_ref()?;
    let by = if flow.ways.is_empty() { "no channel yet".to_owned() } else { ways(&flow.ways) };
    let why = flow.because.as_deref().map_or_else(String::new, |because| format!(" ({because})"));
    Some(Line::from(vec![Span::raw(format!("    by {by}")).cyan(), Span::raw(format!("; {class}{why}")).dim()]))
}

fn events(model: &Model) -> Vec<Line<'static>> {
    let with_daemon = model.daemons.len() > 1;
    let lines = model.events().into_iter().map(|(daemon, event)| {
        let seconds = event.at as u64 % 86_400;
        let at = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        let whose = if with_daemon { format!("{} ", daemon.name) } else { String::new() };
        let line = plain(format!("{at} {whose}{:<5} {}", event.level, event.text));
        if event.level == "info" { line } else { line.yellow() }
    });
    let lines: Vec<_> = lines.collect();
    if lines.is_empty() { vec![plain("Nothing happened yet.")] } else { lines }
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let (width, height) = (62.min(area.width), 12.min(area.height));
    let place = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    frame.render_widget(Clear, place);
    let text: Vec<Line<'_>> = HELP.iter().map(|line| Line::from(*line)).collect();
    frame.render_widget(Paragraph::new(text).block(Block::bordered().title(" keys ")), place);
}
