//! The page in the daemon: `web` and what goes with it.

use super::secret::Text;
use super::webhook::{EXAMPLE, LONGEST_PASSWORD, is_token, parse};
use super::{ConfigError, Interface, Login, RawInterface, Reader, Webhook};
use std::net::SocketAddr;
use std::path::PathBuf;
use toml::Spanned;
use zeroize::Zeroizing;

/// The least length of a password, in bytes: it may be guessed from afar.
const SHORTEST: usize = 8;

/// What the settings say.
pub(super) struct Web {
    pub(super) address: Option<SocketAddr>,
    pub(super) password: Option<Login>,
    pub(super) hosts: Vec<String>,
    pub(super) may_control: bool,
}

/// What a daemon serves over HTTP.
#[derive(Debug)]
pub(crate) struct Served {
    /// Where metrics are.
    pub(crate) metrics: Option<SocketAddr>,
    /// Where the page is.
    pub(crate) web: Option<SocketAddr>,
    /// What who looks at it has to know.
    pub(crate) password: Option<Login>,
    /// Names under which browsers may know it.
    pub(crate) hosts: Vec<String>,
    /// Whether links may be taken out there.
    pub(crate) may_control: bool,
    /// The file of its history.
    pub(crate) history: PathBuf,
    /// Where alarms go.
    pub(crate) webhook: Option<Webhook>,
}

impl Interface {
    /// What a daemon with these settings serves.
    pub(crate) fn served(&self) -> Served {
        Served {
            metrics: self.metrics,
            web: self.web,
            password: self.web_password.clone(),
            hosts: self.web_hosts.clone(),
            may_control: self.web_control,
            history: self.state_dir.join(format!("{}.history", self.name)),
            webhook: self.webhook.clone(),
        }
    }
}

impl Reader<'_> {
    pub(super) fn web(&self, raw: &RawInterface) -> Result<Web, ConfigError> {
        let address = raw.web.as_ref().map(|web| self.listening(web, "interface.web", "127.0.0.1:9320")).transpose()?;
        let password = self.web_password(raw.web_password.as_ref(), raw.web_password_file.as_ref())?;
        let hosts = raw.web_hosts.iter().map(|host| self.web_host(host)).collect::<Result<Vec<_>, _>>()?;
        let may_control = raw.web_control.as_ref().is_some_and(|may| *may.get_ref());
        if let (Some(address), Some(web), None) = (address, &raw.web, &password)
            && !address.ip().is_loopback()
        {
            let problem = "others than this host's users could look: add `web_password` or `web_password_file`, or write a \
                           loopback address such as \"127.0.0.1:9320\"";
            return Err(self.error(web.span(), "interface.web", problem));
        }
        if let (Some(control), true, true) = (&raw.web_control, may_control && address.is_some(), password.is_none()) {
            let problem = "has no effect without `web_password`: whoever may change something has to be known";
            self.notice(control.span(), "interface.web_control", problem);
        }
        if address.is_none() {
            let given = [
                ("web_password", raw.web_password.as_ref().map(Spanned::span)),
                ("web_password_file", raw.web_password_file.as_ref().map(Spanned::span)),
                ("web_hosts", raw.web_hosts.first().map(Spanned::span)),
                ("web_control", raw.web_control.as_ref().filter(|_| may_control).map(Spanned::span)),
            ];
            for (name, span) in given.into_iter().filter_map(|(name, span)| Some((name, span?))) {
                self.notice(span, &format!("interface.{name}"), "has no effect without `web`");
            }
        }
        if let (Some(address), Some(web), true) = (address, &raw.web, raw.metrics.is_some())
            && raw.metrics.as_ref().and_then(|metrics| metrics.get_ref().parse().ok()) == Some(address)
        {
            return Err(self.error(web.span(), "interface.web", "is that of `metrics` too: give each its own port"));
        }
        Ok(Web { address, password, hosts, may_control })
    }

    pub(super) fn webhook(&self, raw: &RawInterface) -> Result<Option<Webhook>, ConfigError> {
        let (Some(url), file) = (&raw.webhook, &raw.webhook_password_file) else {
            if let Some(file) = &raw.webhook_password_file {
                self.notice(file.span(), "interface.webhook_password_file", "has no effect without `webhook`");
            }
            return Ok(None);
        };
        let (address, path) = parse(url.get_ref()).map_err(|problem| {
            self.error(url.span(), "interface.webhook", format!("{problem}, such as \"{EXAMPLE}\""))
        })?;
        let password = match self.secret(None, file.as_ref(), "interface.webhook_password")? {
            None => None,
            Some((text, _, _)) if is_token(&text) => Some(Zeroizing::new(text.to_string())),
            Some((_, span, setting)) => {
                let problem = format!("is 1 to {LONGEST_PASSWORD} visible characters of ASCII, without spaces");
                return Err(self.error(span, &setting, problem));
            }
        };
        Ok(Some(Webhook { address, path: Zeroizing::new(path), password }))
    }

    fn web_password(
        &self,
        text: Option<&Spanned<Text>>,
        file: Option<&Spanned<String>>,
    ) -> Result<Option<Login>, ConfigError> {
        let Some((password, span, setting)) = self.secret(text, file, "interface.web_password")? else {
            return Ok(None);
        };
        if password.len() < SHORTEST || password.len() > Login::LONGEST {
            let problem = format!("is {SHORTEST} to {} bytes long: write another", Login::LONGEST);
            return Err(self.error(span, &setting, problem));
        }
        Ok(Some(Login::new(None, Zeroizing::new(password.to_string()))))
    }

    /// A name under which browsers may know the page.
    fn web_host(&self, host: &Spanned<String>) -> Result<String, ConfigError> {
        let name = host.get_ref().trim_end_matches('.');
        let is_name = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_');
        if name.is_empty() || name.len() > 253 || !name.bytes().all(is_name) {
            let problem =
                format!("`{}` is no host's name without a port: write for example `router.lan`", host.get_ref());
            return Err(self.error(host.span(), "interface.web_hosts", problem));
        }
        Ok(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use std::path::Path;

    fn parse(settings: &str) -> Result<Config, String> {
        let text = format!(
            "[interface]\nname = \"br0\"\n{settings}[bond]\npolicy = \"brr\"\n[[bond.link]]\ndevice = \"eth1\"\n"
        );
        Config::parse(Path::new("br0.toml"), &text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_page_that_others_could_reach_needs_a_password_and_one_of_this_host_does_not() {
        for address in ["127.0.0.1:9320", "[::1]:9320"] {
            let config = parse(&format!("web = \"{address}\"\n")).expect("loopback");
            assert_eq!(config.interface.web.map(|web| web.to_string()).as_deref(), Some(address));
            assert!(config.notices.is_empty(), "{:?}", config.notices);
        }
        for address in ["0.0.0.0:9320", "10.0.0.1:9320", "[::]:9320"] {
            let error = parse(&format!("web = \"{address}\"\n")).expect_err("open to all");
            assert!(error.contains("web_password"), "{error}");
            assert!(parse(&format!("web = \"{address}\"\nweb_password = \"correct horse\"\n")).is_ok());
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_or_told_and_no_password_is_shown() {
        for (settings, wanted) in [
            ("web = \"127.0.0.1:0\"\n", "port 0"),
            ("web = \"127.0.0.1:1\"\nweb_password = \"short\"\n", "8 to 255"),
            ("web = \"127.0.0.1:1\"\nweb_hosts = [\"a:80\"]\n", "web_hosts"),
            ("web = \"127.0.0.1:1\"\nweb_hosts = [\"http://a\"]\n", "web_hosts"),
            ("web = \"127.0.0.1:1\"\nmetrics = \"127.0.0.1:1\"\n", "its own port"),
        ] {
            let error = parse(settings).expect_err(settings);
            assert!(error.contains(wanted) && !error.contains("short\""), "{error}");
        }
        for (settings, count) in [
            ("web_hosts = [\"a\"]\nweb_password = \"correct horse\"\n", 2),
            ("web = \"127.0.0.1:1\"\nweb_control = true\n", 1),
            ("web = \"127.0.0.1:1\"\nweb_control = true\nweb_password = \"correct horse\"\n", 0),
        ] {
            let config = parse(settings).expect(settings);
            assert_eq!(config.notices.len(), count, "{settings}: {:?}", config.notices);
            assert!(!format!("{config:?}").contains("horse"));
        }
    }

    #[test]
    fn a_password_comes_from_a_file_has_no_end_of_a_line_and_is_not_shown() {
        let folder = tempfile::tempdir().expect("a folder");
        let with = |settings: &str| {
            let text = format!(
                "[interface]\nname = \"br0\"\n{settings}[bond]\npolicy = \"brr\"\n[[bond.link]]\ndevice = \"eth1\"\n"
            );
            Config::parse(&folder.path().join("br0.toml"), &text).map_err(|error| error.to_string())
        };
        let write = |text: &str| std::fs::write(folder.path().join("hook"), text).expect("written");
        let both = "webhook = \"http://192.0.2.5/x\"\nwebhook_password_file = \"hook\"\n";
        write("correct-horse\n");
        let config = with(both).expect("good");
        let hook = config.interface.webhook.as_ref().expect("a webhook");
        assert_eq!(hook.password.as_ref().map(|password| password.as_str()), Some("correct-horse"));
        assert!(!format!("{config:?}").contains("horse"));
        write("two words\n");
        let error = with(both).expect_err("a space");
        assert!(error.contains("webhook_password") && !error.contains("two words"), "{error}");
        let config = with("webhook_password_file = \"hook\"\n").expect("of no use");
        assert_eq!(config.notices.len(), 1, "{:?}", config.notices);
        assert!(with("webhook = \"https://192.0.2.5/\"\n").is_err_and(|error| error.contains("interface.webhook")));
    }
}
