//! What a path tells of itself, when that changes while it is connected.

use super::*;

/// How long a path that was led elsewhere follows nobody.
const STAYS: Span = Span::from_secs(3);

impl Sessions {
    /// Says `hello` in handshakes of a path that [`connect`](Self::connect) opened, from now on. Where the peer knows another one, it is
    /// told at once, by new keys; the present ones carry packets until then.
    ///
    /// # Errors
    /// The hello is too long.
    pub fn say(&mut self, now: Time, path: PathId, hello: Vec<u8>) -> Result<(), ConnectError> {
        if hello.len() > HELLO_MAX {
            return Err(ConnectError::HelloTooLong(hello.len()));
        }
        if self.path(path).is_none_or(|path| path.hello.as_ref() == Some(&hello)) {
            return Ok(());
        }
        let Some(mut taken) = self.take(path.0) else { return Ok(()) };
        taken.hello = Some(hello);
        // What is under way says what held before.
        self.drop_attempts(&mut taken);
        taken.untold = true;
        self.initiate(now, path.0, &mut taken);
        self.put_back(path.0, taken);
        Ok(())
    }

    /// Calls the peer on a connected path elsewhere, or by another socket, from now on.
    pub fn redirect(&mut self, now: Time, path: PathId, to: Endpoint) {
        let Some(mut taken) = self.take(path.0) else { return };
        (taken.configured, taken.endpoint) = (Some(to), Some(to));
        taken.stays_until = now + STAYS;
        self.drop_attempts(&mut taken);
        if taken.current.is_some() {
            self.ask(now, &mut taken);
        }
        self.initiate(now, path.0, &mut taken);
        self.put_back(path.0, taken);
    }
}
