//! The operator's settings.

use rind_sdk::data;

/// Settings: data to mask, and text whose output is withheld.
#[data]
pub(crate) struct SafetySettings {
    /// Kinds of personal data to mask.
    pub(crate) mask: Vec<PersonalDataKind>,
    /// Names of the built-in categories of text that must not be shown. A match withholds the
    /// output.
    pub(crate) block: Vec<String>,
    /// Regular expressions for text that must not be shown. A match withholds the output.
    pub(crate) deny: Vec<String>,
    /// Texts that are never masked, although they look like personal data.
    pub(crate) allow: Vec<String>,
}

/// A kind of personal data. If several kinds match at the same position, the match whose kind is
/// listed first is masked.
#[data]
#[derive(Copy, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PersonalDataKind {
    /// Payment card number.
    Card,
    /// Bank account number (IBAN).
    Iban,
    /// Social security number of the United States.
    Ssn,
    /// Email address.
    Email,
    /// Phone number in international format.
    Phone,
    /// IPv4 address.
    Ipv4,
}

impl SafetySettings {
    /// Whether any setting can withhold the complete output of a turn.
    pub(crate) fn can_withhold_output(&self) -> bool {
        !self.deny.is_empty() || !self.block.is_empty()
    }
}

impl PersonalDataKind {
    /// Whether data of this kind can begin with the byte `first`.
    pub(crate) fn may_begin_with(self, first: u8) -> bool {
        match self {
            Self::Card | Self::Ssn | Self::Ipv4 => first.is_ascii_digit(),
            Self::Iban => first.is_ascii_uppercase(),
            Self::Email => first.is_ascii_alphanumeric(),
            Self::Phone => first == b'+',
        }
    }

    /// Returns the placeholder that replaces data of this kind.
    pub(crate) fn placeholder(self) -> &'static str {
        match self {
            Self::Card => "[card masked]",
            Self::Iban => "[iban masked]",
            Self::Ssn => "[ssn masked]",
            Self::Email => "[email masked]",
            Self::Phone => "[phone masked]",
            Self::Ipv4 => "[ipv4 masked]",
        }
    }
}
