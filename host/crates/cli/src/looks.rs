//! Adapts the output to this terminal: colors of code that fit the background, and links.
//!
//! Settings take precedence, then the terminal's answer, then the environment. Start from
//! [`configure_terminal_style`].

use std::io::IsTerminal;

use super::environment;
use super::render::look::{self, CodePalette};
use rind_lib::config::Config;
use rind_operator::chat::{ChatConfig, ChatTheme};

/// Environment variable in which some terminals report their colors, as `FOREGROUND;BACKGROUND`.
const COLORS: &str = "COLORFGBG";

/// Sets colors and links by settings and environment. Returns whether to ask the terminal for its
/// background, because no theme is set.
///
/// # Errors
/// A setting is wrong.
pub(super) fn configure_terminal_style(config: &Config) -> anyhow::Result<bool> {
    let chat: ChatConfig = config.section()?;
    look::set_link_support(
        std::io::stdout().is_terminal()
            && supports_hyperlinks::on(supports_hyperlinks::Stream::Stdout),
    );
    let told = environment::variable(COLORS);
    look::set_palette(match chat.theme {
        ChatTheme::Dark => CodePalette::Dark,
        ChatTheme::Light => CodePalette::Light,
        ChatTheme::Auto => told.as_deref().map_or(CodePalette::Terminal, parse_palette),
    });
    Ok(chat.theme == ChatTheme::Auto)
}

/// Sets the colors of code that fit a light or a dark background.
pub(super) fn set_background_palette(is_light: bool) {
    look::set_palette(match is_light {
        true => CodePalette::Light,
        false => CodePalette::Dark,
    });
}

/// Returns the palette for a value of [`COLORS`], whose last number is the background among the
/// sixteen colors.
fn parse_palette(told: &str) -> CodePalette {
    match told.rsplit(';').next().and_then(|last| last.parse().ok()) {
        Some(0..=6 | 8) => CodePalette::Dark,
        Some(7 | 9..=15) => CodePalette::Light,
        _ => CodePalette::Terminal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_background_is_told_by_its_number() {
        for (told, expected) in [
            ("15;0", CodePalette::Dark),
            ("15;default;0", CodePalette::Dark),
            ("0;15", CodePalette::Light),
            ("0;7", CodePalette::Light),
            ("default;default", CodePalette::Terminal),
            ("", CodePalette::Terminal),
            ("0;-1", CodePalette::Terminal),
            ("0;999999999999", CodePalette::Terminal),
        ] {
            assert_eq!(parse_palette(told), expected, "{told}");
        }
    }
}
