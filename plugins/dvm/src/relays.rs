//! Keeps connections to the configured Nostr relays open: reconnects with a growing pause, and
//! verifies the events that relays send.

use std::time::Duration;

use rind_sdk::log;
use rind_sdk::serde_json::{self, Value, json};
use rind_sdk::websocket::{self, ConnectRequest, ConnectionEvent, Frame};

use crate::event::NostrEvent;

/// Minimum and maximum pause before the plugin connects to a relay again, in seconds.
const RECONNECT_PAUSE_RANGE_SECONDS: (u64, u64) = (1, 300);

/// Number of forged events after which the plugin disconnects from a relay for the longest pause.
const MAX_FORGED_EVENTS_PER_RELAY: u32 = 20;

/// Maximum size of a relay's message, in bytes. Larger ones are ignored.
const MAX_RELAY_MESSAGE_BYTES: usize = 128 << 10;

/// Id of the subscription at each relay (NIP-01).
const RELAY_SUBSCRIPTION_ID: &str = "jobs";

/// Message of a relay that this plugin uses.
#[derive(Debug)]
pub(crate) enum NostrRelayMessage {
    /// An event of the subscription with a valid id and signature.
    Request(NostrEvent),
    /// The relay accepted, or already had, the event with this id.
    Took(String),
    /// The relay refused the event with this id, for this reason.
    Refused(String, String),
}

/// Relay from the settings, connected or not.
struct ConfiguredNostrRelay {
    url: String,
    connection: Option<u32>,
    /// Time of the next connection attempt, in seconds since 1970, and the pause after the next
    /// failure, in seconds.
    at: u64,
    pause: u64,
    n_forged: u32,
}

/// All relays from the settings.
pub(crate) struct ConfiguredNostrRelays(Vec<ConfiguredNostrRelay>);

impl ConfiguredNostrRelays {
    pub(crate) fn new(urls: &[String]) -> Self {
        let relay = |url: &String| ConfiguredNostrRelay {
            url: url.clone(),
            connection: None,
            at: 0,
            pause: RECONNECT_PAUSE_RANGE_SECONDS.0,
            n_forged: 0,
        };
        Self(urls.iter().map(relay).collect())
    }

    /// Connects to each relay whose pause is over and subscribes to requests. Returns whether a
    /// connection was opened.
    pub(crate) fn connect(&mut self, now: u64, kinds: &[u32], since: u64) -> bool {
        let filter = json!({"kinds": kinds, "since": since, "limit": 200});
        let ask = json!(["REQ", RELAY_SUBSCRIPTION_ID, filter]).to_string();
        let mut is_new = false;
        for relay in &mut self.0 {
            if relay.connection.is_some() || relay.at > now {
                continue;
            }
            let opened = websocket::open(&ConnectRequest::new(&relay.url));
            let asked =
                opened.and_then(|number| websocket::send_text(number, &ask).map(|()| number));
            match asked {
                Ok(number) => {
                    log::info(format_args!("listens to {}", relay.url));
                    relay.connection = Some(number);
                    is_new = true;
                }
                Err(error) => relay.disconnect(now, error.message()),
            }
        }
        is_new
    }

    /// Returns the time until the next connection attempt; `None` if all relays are connected.
    pub(crate) fn time_until_next_connection(&self, now: u64) -> Option<Duration> {
        let lost = self.0.iter().filter(|relay| relay.connection.is_none());
        let at = lost.map(|relay| relay.at).min()?;
        Some(Duration::from_secs(at.saturating_sub(now).max(1)))
    }

    /// Sends an event to every connected relay. Returns the number of relays to which it was sent.
    pub(crate) fn publish(&mut self, event: &NostrEvent, now: u64) -> usize {
        let text = json!(["EVENT", event]).to_string();
        let mut n = 0;
        for relay in &mut self.0 {
            let Some(number) = relay.connection else {
                continue;
            };
            match websocket::send_text(number, &text) {
                Ok(()) => n += 1,
                Err(error) => relay.disconnect(now, error.message()),
            }
        }
        n
    }

    /// Reads the messages that arrived on all connections, at most `max` from each.
    pub(crate) fn read_messages(&mut self, now: u64, max: usize) -> Vec<NostrRelayMessage> {
        let mut said = Vec::new();
        for relay in &mut self.0 {
            relay.read(now, max, &mut said);
        }
        said
    }
}

impl ConfiguredNostrRelay {
    /// Closes the connection, if there is one, and pauses before the next attempt.
    fn disconnect(&mut self, now: u64, why: &str) {
        if let Some(number) = self.connection.take() {
            // Ignore the error: the connection may have ended already.
            let _ = websocket::close(number);
        }
        log::warn(format_args!(
            "{}: {why}; connects again in {} s",
            self.url, self.pause
        ));
        self.at = now + self.pause;
        self.pause = (self.pause * 2).min(RECONNECT_PAUSE_RANGE_SECONDS.1);
    }

    fn read(&mut self, now: u64, max: usize, said: &mut Vec<NostrRelayMessage>) {
        for _ in 0..max {
            let Some(number) = self.connection else {
                return;
            };
            let text = match websocket::receive(number) {
                Ok(None) => return,
                Ok(Some(ConnectionEvent::Message(Frame::Text(text)))) => text,
                Ok(Some(ConnectionEvent::Message(Frame::Binary(_)))) => continue,
                Ok(Some(ConnectionEvent::Closed(why))) => return self.disconnect(now, &why),
                Err(error) => return self.disconnect(now, error.message()),
            };
            match parse_message(&text) {
                Ok(Some(heard)) => {
                    // Reset the pause only after a valid message: a broken relay may accept
                    // connections without sending one.
                    self.pause = RECONNECT_PAUSE_RANGE_SECONDS.0;
                    said.push(heard);
                }
                Ok(None) => {}
                Err(ForgedEventError) => {
                    self.n_forged += 1;
                    log::warn(format_args!(
                        "{} sent an event whose id or signature is wrong",
                        self.url
                    ));
                    if self.n_forged >= MAX_FORGED_EVENTS_PER_RELAY {
                        self.n_forged = 0;
                        self.pause = RECONNECT_PAUSE_RANGE_SECONDS.1;
                        self.disconnect(now, "it forges events");
                    }
                }
            }
        }
    }
}

/// Error for an event whose id or signature is wrong.
#[derive(Debug, PartialEq, Eq)]
struct ForgedEventError;

/// Parses a message of a relay. Returns `None` for a message that the plugin does not use, and an
/// error for an event that is malformed or has a wrong id or signature.
fn parse_message(text: &str) -> Result<Option<NostrRelayMessage>, ForgedEventError> {
    if text.len() > MAX_RELAY_MESSAGE_BYTES {
        return Ok(None);
    }
    let Ok(Value::Array(mut parts)) = serde_json::from_str::<Value>(text) else {
        return Ok(None);
    };
    let word = |at: usize| {
        parts
            .get(at)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    match (&*word(0), &*word(1)) {
        ("EVENT", RELAY_SUBSCRIPTION_ID) if parts.len() == 3 => {
            let event = parts.pop().map(serde_json::from_value::<NostrEvent>);
            match event {
                Some(Ok(event)) if event.has_valid_hash_and_signature() => {
                    Ok(Some(NostrRelayMessage::Request(event)))
                }
                _ => Err(ForgedEventError),
            }
        }
        ("OK", id) => {
            let is_taken = parts.get(2) == Some(&Value::Bool(true));
            // Count a duplicate as accepted: the relay already had the event.
            let is_known = word(3).starts_with("duplicate");
            Ok(Some(match is_taken || is_known {
                true => NostrRelayMessage::Took(id.to_owned()),
                false => NostrRelayMessage::Refused(id.to_owned(), word(3)),
            }))
        }
        _ => Ok(None),
    }
}
