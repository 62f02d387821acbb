//! Settings of the chat: its colors, and how it notifies a user who is looking at another window.
//!
//! Start from [`ChatConfig`].

use rind_lib::config::Section;
use serde::Deserialize;

/// Color theme for the code that the chat shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChatTheme {
    /// Colors for the background that the terminal reports; if it reports none, the sixteen colors
    /// of the terminal.
    #[default]
    Auto,
    /// Colors of code for a dark background.
    Dark,
    /// Colors of code for a light background.
    Light,
}

/// Notification of the user when a turn ends or asks while the terminal is not focused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChatNotificationMethod {
    /// Bell character of the terminal.
    #[default]
    Bell,
    /// Notification with the escape sequence OSC 9, for iTerm2, WezTerm, Ghostty and kitty.
    Osc9,
    /// Notification with the escape sequence OSC 777, for foot, Ghostty, WezTerm and urxvt.
    Osc777,
    /// No notification of the user.
    Off,
}

/// Looks and signals of the chat. The colors are those of `rind run` at a terminal too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChatConfig {
    /// Colors in which code is shown. Default: auto.
    pub theme: ChatTheme,
    /// Signal when a turn ends or asks while the terminal is not in front. Default: bell.
    pub notify: ChatNotificationMethod,
}

impl Section for ChatConfig {
    const NAME: &'static str = "chat";
}
