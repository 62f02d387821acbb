//! Delivers events in the order in which they were sent, stamped with time and position.
//!
//! The sender tracks the position (agent, turn and step) from the events that pass through it, for
//! example `turn-start`, so that callers do not need to state it. Listeners are channels or
//! observer functions; a listener that is gone is dropped. The module must not interpret events
//! beyond their position.
//!
//! Start from [`EventSender`].

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use jiff::Timestamp;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde::ser::{Error, SerializeMap, Serializer};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::Event;
use crate::clock;
use crate::point::trace::TraceRecord;

/// Version of the event stream's format, as stated in the event `session-opened`.
pub const EVENT_STREAM_VERSION: u32 = 1;

/// Names of the fields that every event has. If an event has its own field with one of these names,
/// that field must have the same value, because only the common field is written.
const COMMON_EVENT_FIELDS: [&str; 6] = ["type", "at", "session", "agent", "turn", "step"];

const MAIN_AGENT_NAME: &str = "main";

/// Line of the event stream of Rind. The first line is session-opened, which names the version of
/// the stream. Readers ignore events and fields that they do not know.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
pub struct Stamped {
    /// Time in UTC: RFC 3339 with microseconds, as in `2026-01-31T09:30:00.123456Z`.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub at: Timestamp,
    /// Id of the session of the main agent.
    #[schemars(with = "String", default)]
    pub session: Option<Arc<str>>,
    /// Agent in which the event happened: `main`, or the id of a subagent.
    #[schemars(with = "String")]
    pub agent: Arc<str>,
    /// Number of the latest turn of this agent, 0 before the first. A hook or an access outside a
    /// turn has 0.
    pub turn: u32,
    /// Number of the latest step in the turn, 0 before the first.
    pub step: u32,
    /// Event that was emitted.
    #[schemars(flatten)]
    pub event: Event,
}

impl Stamped {
    /// Whether the event is from the main agent and not from a subagent.
    #[must_use]
    pub fn is_from_main_agent(&self) -> bool {
        &*self.agent == MAIN_AGENT_NAME
    }
}

impl Serialize for Stamped {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", self.event.name())?;
        map.serialize_entry("at", &clock::format_timestamp(self.at))?;
        if let Some(session) = &self.session {
            map.serialize_entry("session", &**session)?;
        }
        map.serialize_entry("agent", &*self.agent)?;
        map.serialize_entry("turn", &self.turn)?;
        map.serialize_entry("step", &self.step)?;
        match &self.event {
            // Hook events are the most frequent, and converting one to a `Value` would take longer
            // than writing the rest of its line.
            Event::Hook { record } => serialize_trace_record(record, &mut map)?,
            event => serialize_event_fields(event, &mut map)?,
        }
        map.end()
    }
}

/// Writes the event's own fields without those in [`COMMON_EVENT_FIELDS`], which are already
/// written. A `turn` of the event, for example, equals the common one, and `#[serde(flatten)]`
/// would write it twice.
fn serialize_event_fields<M: SerializeMap>(event: &Event, map: &mut M) -> Result<(), M::Error> {
    let Value::Object(fields) = serde_json::to_value(event).map_err(M::Error::custom)? else {
        return Err(M::Error::custom("an event is an object"));
    };
    let own = fields
        .iter()
        .filter(|(name, _)| !COMMON_EVENT_FIELDS.contains(&name.as_str()));
    for (name, value) in own {
        map.serialize_entry(name, value)?;
    }
    Ok(())
}

/// Writes the fields of a hook event as [`serialize_event_fields`] would, but without building a
/// [`Value`].
fn serialize_trace_record<M: SerializeMap>(
    record: &TraceRecord,
    map: &mut M,
) -> Result<(), M::Error> {
    let TraceRecord {
        point,
        plugin,
        outcome,
        changed,
        reason,
        micros,
        turn: _,
        step: _,
        call_id,
    } = record;
    map.serialize_entry("point", &**point)?;
    map.serialize_entry("plugin", &**plugin)?;
    map.serialize_entry("outcome", outcome)?;
    if !changed.is_empty() {
        map.serialize_entry("changed", changed)?;
    }
    if let Some(reason) = reason {
        map.serialize_entry("reason", reason)?;
    }
    map.serialize_entry("micros", micros)?;
    if let Some(call) = call_id {
        map.serialize_entry("call_id", &**call)?;
    }
    Ok(())
}

/// Event as a line of a numbered stream. A reader that knows the number of its last line can tell
/// whether lines are missing.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct NumberedEvent<'a> {
    /// Event with the time and position of its emission.
    #[serde(flatten)]
    pub stamped: &'a Stamped,
    /// Number of the line. Each program that writes to the stream counts its own lines, from 1.
    pub n: u64,
}

/// Returns the JSON Schema (2020-12) of one line of the stream.
#[must_use]
pub fn event_line_schema() -> Schema {
    let mut schema = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<Stamped>();
    let properties = schema.ensure_object().get_mut("properties");
    if let Some(properties) = properties.and_then(Value::as_object_mut) {
        let number = serde_json::json!({
            "description": "Number of the line, from 1 for each program that writes; absent where the stream has other numbers.",
            "type": "integer",
            "minimum": 1,
        });
        properties.insert("n".to_owned(), number);
    }
    schema
}

/// Function that is called with every event, in the task that emits the event. It must return
/// quickly, and may be called concurrently for events of several agents.
pub type EventObserver = Arc<dyn Fn(&Stamped) + Send + Sync>;

/// Sender with which the events of a session are emitted. Cheap to clone.
#[derive(Clone)]
pub struct EventSender {
    listeners: Arc<SharedEventListeners>,
    place: Arc<EventTurnPosition>,
}

/// Listeners of the stream. The list is never changed but replaced by a new one, so that an
/// observer may subscribe while it is called.
type SharedEventListeners = RwLock<Arc<[EventListener]>>;

#[derive(Clone)]
enum EventListener {
    Observer(EventObserver),
    Channel(UnboundedSender<Stamped>),
}

impl EventListener {
    /// Passes an event to this listener. Returns false if the receiver of its channel was dropped;
    /// an observer always exists.
    fn deliver_event(&self, stamped: Cow<'_, Stamped>) -> bool {
        match self {
            Self::Observer(observer) => {
                observer(&stamped);
                true
            }
            Self::Channel(sender) => sender.send(stamped.into_owned()).is_ok(),
        }
    }

    fn is_receiver_closed(&self) -> bool {
        matches!(self, Self::Channel(sender) if sender.is_closed())
    }
}

#[derive(Debug)]
struct EventTurnPosition {
    session: Arc<OnceLock<Arc<str>>>,
    agent: Arc<str>,
    turn: AtomicU32,
    step: AtomicU32,
}

impl EventTurnPosition {
    fn new(session: Arc<OnceLock<Arc<str>>>, agent: Arc<str>) -> Arc<Self> {
        Arc::new(Self {
            session,
            agent,
            turn: AtomicU32::new(0),
            step: AtomicU32::new(0),
        })
    }

    /// Updates the turn and step that later events are stamped with.
    fn update_from_event(&self, event: &Event) {
        match event {
            Event::SessionOpened { id, .. } => {
                let _ = self.session.set(id.as_str().into());
            }
            Event::TurnStart { turn, .. } => {
                self.turn.store(*turn, Ordering::Relaxed);
                self.step.store(0, Ordering::Relaxed);
            }
            Event::StepStart { step } => self.step.store(*step, Ordering::Relaxed),
            _ => {}
        }
    }

    /// Returns the agent, turn and step of an event. Hook and access records contain their own
    /// position: a hook in the background may report late, and accesses of a plugin in a subagent
    /// are reported through the handle of the session.
    fn agent_turn_and_step(&self, event: &Event) -> (Arc<str>, u32, u32) {
        match event {
            Event::Hook { record } => (self.agent.clone(), record.turn, record.step),
            Event::Access { record } => {
                let origin = &record.origin;
                let agent = match &*origin.agent {
                    "" => self.agent.clone(),
                    _ => origin.agent.clone(),
                };
                (agent, origin.turn, origin.step)
            }
            _ => (
                self.agent.clone(),
                self.turn.load(Ordering::Relaxed),
                self.step.load(Ordering::Relaxed),
            ),
        }
    }
}

impl EventSender {
    /// Creates an event stream, and returns its sender and one receiver.
    #[must_use]
    pub fn new_with_receiver() -> (Self, UnboundedReceiver<Stamped>) {
        let events = Self::default();
        let receiver = events.subscribe();
        (events, receiver)
    }

    /// Adds a receiver for future events. The channel is unbounded, because a slow listener must
    /// not delay a turn. The output of the model limits the number of events of a turn.
    #[must_use]
    pub fn subscribe(&self) -> UnboundedReceiver<Stamped> {
        let (sender, receiver) = unbounded_channel();
        self.add_listener_and_remove_closed(Some(EventListener::Channel(sender)));
        receiver
    }

    /// Registers a function that is called with every future event.
    pub fn add_observer(&self, observer: EventObserver) {
        self.add_listener_and_remove_closed(Some(EventListener::Observer(observer)));
    }

    /// Adds the listener `new`, if there is one, and removes the listeners whose receivers were
    /// dropped.
    fn add_listener_and_remove_closed(&self, new: Option<EventListener>) {
        let listeners = self.listeners.write();
        let mut listeners = listeners.unwrap_or_else(PoisonError::into_inner);
        let left = listeners
            .iter()
            .filter(|listener| !listener.is_receiver_closed());
        *listeners = left.cloned().chain(new).collect();
    }

    /// Returns a sender for the events of a subagent.
    #[must_use]
    pub fn sender_for_subagent(&self, agent: &Arc<str>) -> Self {
        Self {
            listeners: self.listeners.clone(),
            place: EventTurnPosition::new(self.place.session.clone(), agent.clone()),
        }
    }

    /// Sends an event. Without listeners it is dropped: a closed terminal must not end a turn.
    pub fn emit(&self, event: Event) {
        self.place.update_from_event(&event);
        let (agent, turn, step) = self.place.agent_turn_and_step(&event);
        let listeners = self.listeners.read();
        let listeners = listeners.unwrap_or_else(PoisonError::into_inner).clone();
        let Some((last, others)) = listeners.split_last() else {
            return;
        };
        let stamped = Stamped {
            at: clock::current_time(),
            session: self.place.session.get().cloned(),
            agent,
            turn,
            step,
            event,
        };
        let mut is_any_gone = false;
        for listener in others {
            is_any_gone |= !listener.deliver_event(Cow::Borrowed(&stamped));
        }
        is_any_gone |= !last.deliver_event(Cow::Owned(stamped));
        if is_any_gone {
            self.add_listener_and_remove_closed(None);
        }
    }
}

impl Default for EventSender {
    fn default() -> Self {
        Self {
            listeners: Arc::new(RwLock::new(Arc::default())),
            place: EventTurnPosition::new(Arc::default(), MAIN_AGENT_NAME.into()),
        }
    }
}

impl_partial_debug!(EventSender, self, place = self.place);

#[cfg(test)]
mod tests {
    use super::super::tests::{turn_end_event, turn_start_event};
    use super::*;
    use crate::point::outcome::Level;
    use crate::point::trace::TraceOutcome;

    #[test]
    fn the_record_of_a_hook_is_written_as_every_event_is() {
        let short = TraceRecord {
            point: "pre-tool".into(),
            plugin: "p".into(),
            outcome: TraceOutcome::Pass,
            changed: Vec::new(),
            reason: None,
            micros: 1.5,
            turn: 2,
            step: 3,
            call_id: None,
        };
        let long = TraceRecord {
            outcome: TraceOutcome::DroppedBlocking,
            changed: vec!["note"],
            reason: Some("why".to_owned()),
            call_id: Some("c".into()),
            ..short.clone()
        };
        for record in [short, long] {
            let event = Event::Hook { record };
            let mut expected = Vec::new();
            let mut json = serde_json::Serializer::new(&mut expected);
            let mut map = json.serialize_map(None).unwrap();
            serialize_event_fields(&event, &mut map).unwrap();
            SerializeMap::end(map).unwrap();
            let Event::Hook { record } = &event else {
                unreachable!()
            };
            let mut written = Vec::new();
            let mut json = serde_json::Serializer::new(&mut written);
            let mut map = json.serialize_map(None).unwrap();
            serialize_trace_record(record, &mut map).unwrap();
            SerializeMap::end(map).unwrap();
            assert_eq!(
                String::from_utf8(written).unwrap(),
                String::from_utf8(expected).unwrap()
            );
        }
    }

    #[test]
    fn every_event_says_in_which_agent_turn_and_step_it_happened() {
        let (events, mut receiver) = EventSender::new_with_receiver();
        let notice = || Event::create_host_notice(Level::Info, "hello");
        events.emit(notice());
        events.emit(Event::SessionOpened {
            version: EVENT_STREAM_VERSION,
            id: "s-1".to_owned(),
            resumed: false,
            messages: 0,
            provider: "p".to_owned(),
            model: "m".to_owned(),
        });
        events.emit(turn_start_event(4));
        events.emit(Event::StepStart { step: 1 });
        let inner = events.sender_for_subagent(&"sub-1".into());
        inner.emit(turn_start_event(1));
        inner.emit(Event::StepStart { step: 7 });
        inner.emit(notice());
        events.emit(notice());
        events.emit(turn_end_event(4));
        events.emit(notice());
        let mut seen = Vec::new();
        let mut last = None;
        while let Ok(stamped) = receiver.try_recv() {
            assert!(last <= Some(stamped.at));
            last = Some(stamped.at);
            let session = stamped.session.as_deref().unwrap_or("-").to_owned();
            let (turn, step) = (stamped.turn, stamped.step);
            seen.push(format!("{session} {} {turn}/{step}", stamped.agent));
        }
        assert_eq!(
            seen,
            [
                "- main 0/0",
                "s-1 main 0/0",
                "s-1 main 4/0",
                "s-1 main 4/1",
                "s-1 sub-1 1/0",
                "s-1 sub-1 1/7",
                "s-1 sub-1 1/7",
                "s-1 main 4/1",
                "s-1 main 4/1",
                "s-1 main 4/1",
            ]
        );
    }

    #[test]
    fn as_json_the_stamp_comes_first_and_nothing_is_written_twice() {
        let stamped = Stamped {
            at: "2026-01-31T09:30:00.1Z".parse().unwrap(),
            session: Some("s-1".into()),
            agent: MAIN_AGENT_NAME.into(),
            turn: 2,
            step: 3,
            event: Event::StepStart { step: 3 },
        };
        assert_eq!(
            serde_json::to_string(&stamped).unwrap(),
            r#"{"type":"step-start","at":"2026-01-31T09:30:00.100000Z","session":"s-1","agent":"main","turn":2,"step":3}"#
        );
        let numbered = NumberedEvent {
            stamped: &stamped,
            n: 7,
        };
        let line = serde_json::to_string(&numbered).unwrap();
        assert!(line.ends_with(r#","step":3,"n":7}"#), "{line}");
    }

    #[test]
    fn no_event_has_a_field_that_means_something_else_in_the_stamp() {
        let schema = serde_json::to_value(event_line_schema()).unwrap();
        let events = schema["oneOf"].as_array().unwrap();
        assert!(events.len() > 20);
        // The stamp of an access comes from its record.
        let is_own = |event: &&Value| event["properties"]["type"]["const"] != "access";
        for event in events.iter().filter(is_own) {
            let names = event["properties"].as_object().unwrap().keys();
            let clash =
                names.filter(|name| ["at", "session", "agent", "n"].contains(&name.as_str()));
            assert_eq!(clash.count(), 0, "{event}");
        }
    }

    #[test]
    fn emitting_to_nobody_does_nothing() {
        let (events, receiver) = EventSender::new_with_receiver();
        drop(receiver);
        events.emit(Event::create_host_notice(Level::Info, "hello"));
        assert!(events.listeners.read().unwrap().is_empty());
    }

    #[test]
    fn everybody_hears_what_is_emitted_after_they_came_and_an_observer_may_bring_others() {
        let (events, mut first) = EventSender::new_with_receiver();
        events.emit(Event::create_host_notice(Level::Info, "one"));
        let (inner, late) = (events.clone(), Arc::new(std::sync::Mutex::new(Vec::new())));
        let heard = late.clone();
        events.add_observer(Arc::new(move |_| {
            heard.lock().unwrap().push(inner.subscribe())
        }));
        events.emit(Event::create_host_notice(Level::Info, "two"));
        events.emit(Event::create_host_notice(Level::Info, "three"));
        let count = |receiver: &mut UnboundedReceiver<Stamped>| {
            std::iter::from_fn(|| receiver.try_recv().ok()).count()
        };
        let mut late = late.lock().unwrap();
        assert_eq!(count(&mut first), 3);
        assert_eq!(late.iter_mut().map(count).collect::<Vec<_>>(), [1, 0]);
    }
}
