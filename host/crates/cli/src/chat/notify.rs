//! Notifies a user whose terminal does not have the focus when a turn ends or a question is asked.
//!
//! The notification has a fixed text, without any text of a model, a tool or a plugin. Start from
//! [`ChatNotifier`].

use super::tty;
use rind_operator::chat::ChatNotificationMethod;

/// Reason to notify a person who looks at another window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UserNotificationReason {
    TurnEnded,
    Asked,
}

impl UserNotificationReason {
    fn notification_text(self) -> &'static str {
        match self {
            Self::TurnEnded => "Rind has ended its turn",
            Self::Asked => "Rind asks for your answer",
        }
    }
}

pub(super) struct ChatNotifier {
    way: ChatNotificationMethod,
    /// Whether the terminal has the focus, according to its last report. A terminal that never
    /// reports its focus is treated as focused.
    is_in_front: bool,
}

impl ChatNotifier {
    pub(super) fn new(way: ChatNotificationMethod) -> Self {
        Self {
            way,
            is_in_front: true,
        }
    }

    pub(super) fn record_terminal_focus(&mut self, is_in_front: bool) {
        self.is_in_front = is_in_front;
    }

    /// Notifies the person, unless the terminal has the focus.
    pub(super) fn notify(&self, reason: UserNotificationReason) {
        if let Some(signal) = self.notification_control_sequence(reason) {
            // Ignore a write error: if the terminal was closed, the chat detects that elsewhere.
            let _ = tty::write_text_to_terminal(&signal);
        }
    }

    fn notification_control_sequence(&self, reason: UserNotificationReason) -> Option<String> {
        let words = reason.notification_text();
        let signal = match self.way {
            ChatNotificationMethod::Bell => "\x07".to_owned(),
            ChatNotificationMethod::Osc9 => format!("\x1b]9;{words}\x1b\\"),
            ChatNotificationMethod::Osc777 => format!("\x1b]777;notify;Rind;{words}\x1b\\"),
            ChatNotificationMethod::Off => return None,
        };
        (!self.is_in_front).then_some(signal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_that_is_not_in_front_is_signalled() {
        let signal = |way, is_in_front| {
            let mut notifier = ChatNotifier::new(way);
            assert_eq!(
                notifier.notification_control_sequence(UserNotificationReason::Asked),
                None
            );
            notifier.record_terminal_focus(is_in_front);
            notifier.notification_control_sequence(UserNotificationReason::TurnEnded)
        };
        let of = |way| signal(way, false);
        assert_eq!(of(ChatNotificationMethod::Bell).as_deref(), Some("\x07"));
        let words = "Rind has ended its turn";
        assert_eq!(
            of(ChatNotificationMethod::Osc9),
            Some(format!("\x1b]9;{words}\x1b\\"))
        );
        let notified = format!("\x1b]777;notify;Rind;{words}\x1b\\");
        assert_eq!(of(ChatNotificationMethod::Osc777), Some(notified));
        assert_eq!(of(ChatNotificationMethod::Off), None);
        assert_eq!(signal(ChatNotificationMethod::Bell, true), None);
    }
}
