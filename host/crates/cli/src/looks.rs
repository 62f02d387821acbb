//! Adapts the output to this terminal: colors of code that fit the background, and links.
//!
//! Settings take precedence, then the terminal's answer, then the environment. Start from
//! [`configure_colors_and_links`].

use std::io::IsTerminal;

use super::environment;
use super::render::look::{self, CodeColorPalette};
use rind_lib::config::Config;
use rind_operator::chat::{ChatConfig, ChatTheme};

/// Environment variable in which some terminals report their colors, as `FOREGROUND;BACKGROUND`.
const TERMINAL_COLORS_ENV_VARIABLE: &str = "COLORFGBG";

/// Sets colors and links by settings and environment. Returns whether to ask the terminal for its
/// background, because no theme is set.
///
/// # Errors
/// A setting is wrong.
pub(super) fn configure_colors_and_links(config: &Config) -> anyhow::Result<bool> {
    let chat: ChatConfig = config.section()?;
    look::set_hyperlink_support(
        std::io::stdout().is_terminal()
            && supports_hyperlinks::on(supports_hyperlinks::Stream::Stdout),
    );
    let told = environment::environment_variable(TERMINAL_COLORS_ENV_VARIABLE);
    look::set_code_palette(match chat.theme {
        ChatTheme::Dark => CodeColorPalette::Dark,
        ChatTheme::Light => CodeColorPalette::Light,
        ChatTheme::Auto => told
            .as_deref()
            .map_or(CodeColorPalette::Terminal, parse_palette),
    });
    Ok(chat.theme == ChatTheme::Auto)
}

/// Sets the colors of code that fit a light or a dark background.
pub(super) fn set_code_palette_for_background(is_light: bool) {
    look::set_code_palette(match is_light {
        true => CodeColorPalette::Light,
        false => CodeColorPalette::Dark,
    });
}

/// Returns the palette for a value of [`TERMINAL_COLORS_ENV_VARIABLE`], whose last number is the
/// background among the sixteen colors.
fn parse_palette(told: &str) -> CodeColorPalette {
    match told.rsplit(';').next().and_then(|last| last.parse().ok()) {
        Some(0..=6 | 8) => CodeColorPalette::Dark,
        Some(7 | 9..=15) => CodeColorPalette::Light,
        _ => CodeColorPalette::Terminal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_background_is_told_by_its_number() {
        for (told, expected) in [
            ("15;0", CodeColorPalette::Dark),
            ("15;default;0", CodeColorPalette::Dark),
            ("0;15", CodeColorPalette::Light),
            ("0;7", CodeColorPalette::Light),
            ("default;default", CodeColorPalette::Terminal),
            ("", CodeColorPalette::Terminal),
            ("0;-1", CodeColorPalette::Terminal),
            ("0;999999999999", CodeColorPalette::Terminal),
        ] {
            assert_eq!(parse_palette(told), expected, "{told}");
        }
    }
}
