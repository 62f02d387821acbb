//! Settings of the chat: its appearance, and how it notifies a user who looks elsewhere.
//!
//! Start from [`ChatConfig`].

use rind_lib::config::Section;
use serde::Deserialize;

/// Colors of code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChatTheme {
    /// Colors that fit the background which the terminal reports; if it reports none, the sixteen
    /// colors of the terminal.
    #[default]
    Auto,
    /// Colors for a dark background.
    Dark,
    /// Colors for a light background.
    Light,
}

/// Signal to a person whose terminal is not in front when a turn ends or asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChatNotify {
    /// The bell of the terminal.
    #[default]
    Bell,
    /// A notification by the sequence OSC 9, which iTerm2, WezTerm, Ghostty and kitty know.
    Osc9,
    /// A notification by the sequence OSC 777, which foot, Ghostty, WezTerm and urxvt know.
    Osc777,
    /// None.
    Off,
}

/// Looks and signals of the chat. The colors are those of `rind run` at a terminal too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChatConfig {
    /// Colors of code. Default: auto.
    pub theme: ChatTheme,
    /// Signal when a turn ends or asks while the terminal is not in front. Default: bell.
    pub notify: ChatNotify,
}

impl Section for ChatConfig {
    const NAME: &'static str = "chat";
}
