//! Masks card numbers and the values of passwords and tokens, in tool results before the model
//! reads them and in the output.

use regex_lite::{Captures, Regex};

/// Text in the place of what is masked.
const MASKED: &str = "[masked]";

/// Card numbers as people write them. A check digit decides which of them are.
const CARD: &str =
    r"\b(?:[0-9]{13,19}|[0-9]{4}(?:[ -][0-9]{4}){3}|[0-9]{4}[ -][0-9]{6}[ -][0-9]{5})\b";

#[rind_sdk::plugin]
mod plugin {
    use rind_sdk::prelude::*;

    use super::Masks;

    #[data]
    struct Settings {
        names: Vec<String>,
    }

    #[hook]
    fn post_tool(finished: &FinishedCall) -> Result<ResultOutcome, Error> {
        let mut masks = Masks::new(&config::all::<Settings>()?.names)?;
        let mut parts: Vec<Part> = finished.parts().collect();
        for part in &mut parts {
            // Masking may leave a value that is not JSON, so it continues as text.
            if let Part::Text(text) | Part::Json(text) = &*part
                && let Some(masked) = masks.apply(text)
            {
                *part = Part::Text(masked);
            }
        }
        Ok(match masks.count {
            0 => ResultOutcome::default(),
            count => ResultOutcome::replace_parts(parts).metric("redactor.masked", count.into()),
        })
    }

    #[hook]
    fn pre_output(output: &str) -> Result<OutputOutcome, Error> {
        let mut masks = Masks::new(&config::all::<Settings>()?.names)?;
        Ok(match masks.apply(output) {
            None => OutputOutcome::default(),
            Some(masked) => {
                OutputOutcome::replace(masked).metric("redactor.masked", masks.count.into())
            }
        })
    }
}

/// Patterns of what is masked, and how often that was done.
struct Masks {
    value: Regex,
    card: Regex,
    count: u32,
}

impl Masks {
    fn new(names: &[String]) -> Result<Self, rind_sdk::types::Error> {
        let pattern = |text: &str| Regex::new(text).map_err(rind_sdk::types::Error::other);
        Ok(Self {
            value: pattern(&format!(
                r#"(?i)((?:{})["']?[ \t]*[:=][ \t]*["']?)([^ \t\r\n"',;]+)"#,
                names.join("|")
            ))?,
            card: pattern(CARD)?,
            count: 0,
        })
    }

    /// The text with masks; `None` when there is nothing to mask.
    fn apply(&mut self, text: &str) -> Option<String> {
        let before = self.count;
        let values = self.value.replace_all(text, |found: &Captures<'_>| {
            if &found[2] != MASKED {
                self.count += 1;
            }
            format!("{}{MASKED}", &found[1])
        });
        let cards = self.card.replace_all(&values, |found: &Captures<'_>| {
            if !is_card(&found[0]) {
                return found[0].to_owned();
            }
            self.count += 1;
            MASKED.to_owned()
        });
        (self.count > before).then(|| cards.into_owned())
    }
}

/// Whether the last digit is the check digit of the others (Luhn).
fn is_card(text: &str) -> bool {
    let digits = text.chars().rev().filter_map(|digit| digit.to_digit(10));
    let sum: u32 = digits
        .enumerate()
        .map(|(place, digit)| match digit * (1 + place as u32 % 2) {
            double @ 10.. => double - 9,
            single => single,
        })
        .sum();
    sum % 10 == 0
}
