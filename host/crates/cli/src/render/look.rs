//! Stores how output looks on this terminal: the colors of code that fit its background, and
//! whether it supports links.
//!
//! The state is global, because the program has one terminal. The defaults suit any terminal. Must
//! not know how the values are found out. Start from [`set_code_palette`].

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use anstyle::{Ansi256Color, AnsiColor, Color, Style};

/// Palette of the colors in which code is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) enum CodeColorPalette {
    /// The terminal's own sixteen colors, which fit any background.
    #[default]
    Terminal = 0,
    Dark = 1,
    Light = 2,
}

/// Class of a piece of code, which determines its color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CodeTokenClass {
    Comment = 1,
    Text = 2,
    Value = 3,
    Keyword = 4,
    Function = 5,
    Type = 6,
    Attribute = 7,
}

impl CodeTokenClass {
    pub(super) const ALL: [Self; 7] = [
        Self::Comment,
        Self::Text,
        Self::Value,
        Self::Keyword,
        Self::Function,
        Self::Type,
        Self::Attribute,
    ];
}

/// Indices into the terminal's 256 colors for a dark background, in the order of
/// [`CodeTokenClass`]. Each color has a contrast of at least 4.5 to black, and of at least 3 to the
/// backgrounds of changed lines.
const DARK_BACKGROUND_TOKEN_COLORS: [u8; 7] = [248, 114, 215, 182, 117, 80, 222];

/// Indices like those of [`DARK_BACKGROUND_TOKEN_COLORS`] for a light background. Each color has a
/// contrast of at least 4 to white and to the backgrounds of changed lines.
const LIGHT_BACKGROUND_TOKEN_COLORS: [u8; 7] = [241, 22, 94, 90, 25, 23, 88];

const TERMINAL_TOKEN_COLORS: [AnsiColor; 7] = [
    AnsiColor::BrightBlack,
    AnsiColor::Green,
    AnsiColor::Yellow,
    AnsiColor::Magenta,
    AnsiColor::Blue,
    AnsiColor::Cyan,
    AnsiColor::Yellow,
];

static ACTIVE_CODE_PALETTE: AtomicU8 = AtomicU8::new(CodeColorPalette::Terminal as u8);

static ARE_TERMINAL_LINKS_ENABLED: AtomicBool = AtomicBool::new(false);

pub(in super::super) fn set_code_palette(palette: CodeColorPalette) {
    ACTIVE_CODE_PALETTE.store(palette as u8, Ordering::Relaxed);
}

pub(in super::super) fn set_hyperlink_support(has_links: bool) {
    ARE_TERMINAL_LINKS_ENABLED.store(has_links, Ordering::Relaxed);
}

pub(super) fn has_hyperlink_support() -> bool {
    ARE_TERMINAL_LINKS_ENABLED.load(Ordering::Relaxed)
}

fn code_palette() -> CodeColorPalette {
    match ACTIVE_CODE_PALETTE.load(Ordering::Relaxed) {
        1 => CodeColorPalette::Dark,
        2 => CodeColorPalette::Light,
        _ => CodeColorPalette::Terminal,
    }
}

/// Returns the color for a class of code in the current palette.
pub(super) fn color_of_token_class(class: CodeTokenClass) -> Color {
    palette_color(code_palette(), class)
}

fn palette_color(palette: CodeColorPalette, class: CodeTokenClass) -> Color {
    let at = class as usize - 1;
    match palette {
        CodeColorPalette::Terminal => TERMINAL_TOKEN_COLORS[at].into(),
        CodeColorPalette::Dark => Ansi256Color(DARK_BACKGROUND_TOKEN_COLORS[at]).into(),
        CodeColorPalette::Light => Ansi256Color(LIGHT_BACKGROUND_TOKEN_COLORS[at]).into(),
    }
}

/// Returns the background for an added or removed line; `None` if the colors of code may be
/// unreadable on one.
pub(super) fn diff_line_background(is_added: bool) -> Option<Style> {
    let color = match (code_palette(), is_added) {
        (CodeColorPalette::Terminal, _) => return None,
        (CodeColorPalette::Dark, true) => 22,
        (CodeColorPalette::Dark, false) => 52,
        (CodeColorPalette::Light, true) => 194,
        (CodeColorPalette::Light, false) => 224,
    };
    Some(Style::new().bg_color(Some(Ansi256Color(color).into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance of a color of 256 from 16 on.
    fn luminance(index: u8) -> f64 {
        let level = |n: u8| if n == 0 { 0 } else { 55 + 40 * n };
        let parts = match index {
            232.. => [8 + 10 * (index - 232); 3],
            _ => {
                let n = index - 16;
                [level(n / 36), level(n / 6 % 6), level(n % 6)]
            }
        };
        let linear = parts.map(|part| match f64::from(part) / 255.0 {
            part if part <= 0.04045 => part / 12.92,
            part => ((part + 0.055) / 1.055).powf(2.4),
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    }

    fn contrast(one: f64, other: f64) -> f64 {
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn every_color_can_be_read_on_its_backgrounds() {
        for index in DARK_BACKGROUND_TOKEN_COLORS {
            for behind in [0.0, luminance(22), luminance(52)] {
                let contrast = contrast(luminance(index), behind);
                assert!(contrast >= 3.0, "{index}: {contrast}");
            }
            assert!(contrast(luminance(index), 0.0) >= 4.5, "{index}");
        }
        for index in LIGHT_BACKGROUND_TOKEN_COLORS {
            for behind in [1.0, luminance(194), luminance(224)] {
                let contrast = contrast(luminance(index), behind);
                assert!(contrast >= 4.0, "{index}: {contrast}");
            }
        }
    }
}
