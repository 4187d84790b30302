//! The page as HTML: what is known now as tables, which need no script; a script of its own makes it live.
//!
//! All text that is not ours is escaped. The policy of the page names its one style and its one script by their digests, so that
//! nothing else runs even if something were written into it.

use super::access::Access;
use super::history::History;
use super::http::{Answer, Status as Code};
use super::view::{Latest, document};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt::{Display, Write as _};

const TEMPLATE: &str = include_str!("page/page.html");
const LOGIN: &str = include_str!("page/login.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// What does not change.
#[derive(Debug)]
pub(super) struct Page {
    policy: String,
}

/// Text as it stands in HTML, in quotes too.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            c => f.write_char(c),
        })
    }
}

/// A number for people, or a dash.
fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}

fn source(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(digest(&SHA256, text.as_bytes())))
}

impl Page {
    pub(super) fn new() -> Page {
        let (style, script) = (source(STYLE), source(SCRIPT));
        Page {
            policy: format!(
                "default-src 'none'; style-src {style}; script-src {script}; connect-src 'self'; img-src data:; \
                 form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
            ),
        }
    }

    fn answer(&self, body: String) -> Answer {
        let headers = vec![("Content-Security-Policy", self.policy.clone())];
        Answer { status: Code::Ok, kind: "text/html; charset=utf-8", body, headers }
    }

    /// The form that asks for the password; `why` the last one was refused.
    pub(super) fn login(&self, why: Option<&str>) -> Answer {
        let why = why.map(|why| format!("<p class=\"wrong\" role=\"alert\">{}</p>", Escaped(why))).unwrap_or_default();
        self.answer(LOGIN.replace("/*style*/", STYLE).replace("<!--why-->", &why))
    }

    /// The page, with what is known now.
    pub(super) fn html(&self, latest: &Latest, history: &History, access: &Access) -> Answer {
        let view = document(latest, history, access.may_control());
        // In a script element only its end and comments mean anything.
        let view = view.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
        let logout = match access.has_password() {
            true => "<form method=\"post\" action=\"/logout\"><button>Log out</button></form>",
            false => "",
        };
        // Texts of others go in last, so that nothing in them is taken for a place.
        let parts =
            [("/*style*/", STYLE.to_owned()), ("/*script*/", SCRIPT.to_owned()), ("<!--logout-->", logout.to_owned())];
        let own = parts.iter().fold(TEMPLATE.to_owned(), |page, (place, text)| page.replace(place, text));
        let others = [
            ("<!--name-->", Escaped(&latest.status.interface).to_string()),
            ("<!--links-->", links(latest)),
            ("<!--decisions-->", decisions(latest)),
            ("<!--events-->", events(latest)),
            ("/*view*/", view),
        ];
        self.answer(filled(&own, &others))
    }
}

/// A page with each place filled once, and nothing in what fills it looked at again.
fn filled(page: &str, parts: &[(&str, String)]) -> String {
    let mut out = String::with_capacity(page.len() + parts.iter().map(|(_, text)| text.len()).sum::<usize>());
    let mut rest = page;
    loop {
        let found = parts.iter().filter_map(|(place, text)| Some((rest.find(place)?, place, text)));
        let Some((at, place, text)) = found.min_by_key(|(at, ..)| *at) else {
            out += rest;
            return out;
        };
        out += &rest[..at];
        out += text;
        rest = &rest[at + place.len()..];
    }
}

fn links(latest: &Latest) -> String {
    let mut rows = String::new();
    for link in &latest.links {
        let class = if link.up { "up" } else { "down" };
        let _ = write!(
            rows,
            "<tr role=\"row\"><th role=\"rowheader\" scope=\"row\">{} <span class=\"of\">{}</span></th>\
             <td role=\"cell\" data-label=\"State\"><span class=\"state {class}\">{}</span></td>",
            Escaped(&link.name),
            Escaped(&link.of),
            Escaped(&link.state)
        );
        for (label, value) in [
            ("Sends, Mbit/s", number(link.sent_mbit, 2)),
            ("Receives, Mbit/s", number(link.received_mbit, 2)),
            ("Carries, Mbit/s", number(link.capacity_mbit, 1)),
            ("Round trip, ms", number(link.delay_ms, 1)),
            ("Loss, %", number(link.loss.map(|share| share * 100.0), 2)),
            ("Queue, ms", number(link.queue_ms, 1)),
        ] {
            let _ = write!(rows, "<td role=\"cell\" class=\"number\" data-label=\"{label}\">{value}</td>");
        }
        rows += "</tr>";
    }
    rows
}

fn decisions(latest: &Latest) -> String {
    let mut text = String::new();
    for peer in &latest.status.peers {
        for told in &peer.explained {
            let by = if told.channels.is_empty() { "no channel".to_owned() } else { told.channels.join(", ") };
            let _ = write!(
                text,
                "<article><h3>{}: {} <span class=\"of\">{}</span></h3><p>By {}.</p>",
                Escaped(&peer.name),
                Escaped(&told.name),
                Escaped(&told.mode),
                Escaped(&by)
            );
            for (title, sentences) in [("Because", &told.because), ("Would change if", &told.would_change_if)] {
                if sentences.is_empty() {
                    continue;
                }
                let _ = write!(text, "<h4>{title}</h4><ul>");
                for sentence in sentences {
                    let _ = write!(text, "<li>{}</li>", Escaped(sentence));
                }
                text += "</ul>";
            }
            text += "</article>";
        }
    }
    text
}

fn events(latest: &Latest) -> String {
    let mut rows = String::new();
    for event in latest.status.events.iter().rev() {
        let seconds = event.at as u64 % 86_400;
        let _ = write!(
            rows,
            "<li><time>{:02}:{:02}:{:02} UTC</time> <span class=\"level\">{}</span> {}</li>",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60,
            Escaped(&event.level),
            Escaped(&event.text)
        );
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_write_is_text_and_is_not_looked_at_again() {
        assert_eq!(Escaped("<b a='\"&'>").to_string(), "&lt;b a=&#39;&quot;&amp;&#39;&gt;");
        let page = filled("1<!--a-->2/*b*/3", &[("<!--a-->", "x/*b*/<!--a-->".to_owned()), ("/*b*/", "y".to_owned())]);
        assert_eq!(page, "1x/*b*/<!--a-->2y3");
    }

    #[test]
    fn the_template_has_each_place_once_and_no_style_or_script_that_the_policy_would_refuse() {
        for place in
            ["/*style*/", "/*script*/", "<!--name-->", "<!--links-->", "<!--decisions-->", "<!--events-->", "/*view*/"]
        {
            let expected = if place == "<!--name-->" { 2 } else { 1 };
            assert_eq!(TEMPLATE.matches(place).count(), expected, "{place}");
        }
        for text in [TEMPLATE, LOGIN] {
            for refused in [" style=", " onclick", " onload", "javascript:", "http://", "https://"] {
                assert!(!text.contains(refused), "{refused}");
            }
        }
        assert!(!SCRIPT.contains("innerHTML") && !SCRIPT.contains("</script") && !STYLE.contains("</style"));
        assert!(TEMPLATE.contains("<style>/*style*/</style>") && TEMPLATE.contains("<script>/*script*/</script>"));
    }
}
