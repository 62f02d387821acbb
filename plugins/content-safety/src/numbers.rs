//! Recognizes payment cards, bank accounts and social security numbers, by their form and then by
//! their check digits and assigned ranges, which random numbers rarely have.
//!
//! Each function for a kind of data recognizes data that begins at `at` and returns its end.

/// Groups of digits in which a card number may be printed, by their lengths.
const CARD_NUMBER_DIGIT_GROUPS: [&[usize]; 4] =
    [&[4, 4, 4, 4], &[4, 4, 4, 4, 3], &[4, 6, 5], &[4, 6, 4]];

/// Length of an IBAN in each country, from the registry that SWIFT publishes.
const IBAN_LENGTHS_BY_COUNTRY: &[(&[u8; 2], usize)] = &[
    (b"AD", 24),
    (b"AE", 23),
    (b"AL", 28),
    (b"AT", 20),
    (b"AZ", 28),
    (b"BA", 20),
    (b"BE", 16),
    (b"BG", 22),
    (b"BH", 22),
    (b"BR", 29),
    (b"BY", 28),
    (b"CH", 21),
    (b"CR", 22),
    (b"CY", 28),
    (b"CZ", 24),
    (b"DE", 22),
    (b"DK", 18),
    (b"DO", 28),
    (b"EE", 20),
    (b"EG", 29),
    (b"ES", 24),
    (b"FI", 18),
    (b"FO", 18),
    (b"FR", 27),
    (b"GB", 22),
    (b"GE", 22),
    (b"GI", 23),
    (b"GL", 18),
    (b"GR", 27),
    (b"GT", 28),
    (b"HR", 21),
    (b"HU", 28),
    (b"IE", 22),
    (b"IL", 23),
    (b"IQ", 23),
    (b"IS", 26),
    (b"IT", 27),
    (b"JO", 30),
    (b"KW", 30),
    (b"KZ", 20),
    (b"LB", 28),
    (b"LC", 32),
    (b"LI", 21),
    (b"LT", 20),
    (b"LU", 20),
    (b"LV", 21),
    (b"LY", 25),
    (b"MC", 27),
    (b"MD", 24),
    (b"ME", 22),
    (b"MK", 19),
    (b"MR", 27),
    (b"MT", 31),
    (b"MU", 30),
    (b"NL", 18),
    (b"NO", 15),
    (b"PK", 24),
    (b"PL", 28),
    (b"PS", 29),
    (b"PT", 25),
    (b"QA", 29),
    (b"RO", 24),
    (b"RS", 22),
    (b"SA", 24),
    (b"SC", 31),
    (b"SE", 24),
    (b"SI", 19),
    (b"SK", 24),
    (b"SM", 27),
    (b"ST", 25),
    (b"SV", 28),
    (b"TL", 23),
    (b"TN", 24),
    (b"TR", 26),
    (b"UA", 29),
    (b"VA", 22),
    (b"VG", 24),
    (b"XK", 20),
];

/// Returns the end of the card number that begins at `at`, if there is one, written in one piece or
/// in the usual groups.
pub(crate) fn find_card_end(text: &[u8], at: usize) -> Option<usize> {
    let run = text
        .get(at..)?
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    let n_digits = run.count();
    if n_digits >= 14 {
        return is_card_number(&text[at..at + n_digits]).then_some(at + n_digits);
    }
    // Take the longest match that passes the checks: a number of four groups of 4 digits may be the
    // beginning of one with 3 more digits.
    let ends = CARD_NUMBER_DIGIT_GROUPS.iter().filter_map(|groups| {
        let (digits, end) = read_grouped_digits(text, at, groups)?;
        is_card_number(&digits).then_some(end)
    });
    ends.max()
}

/// Returns the digits of groups that are all separated by the same character, a space or a dash,
/// and the end of the last group.
fn read_grouped_digits(text: &[u8], at: usize, groups: &[usize]) -> Option<(Vec<u8>, usize)> {
    let separator = text
        .get(at + groups.first()?)
        .filter(|byte| b" -".contains(byte))?;
    let mut digits = Vec::new();
    let mut end = at;
    for (n, length) in groups.iter().enumerate() {
        if n > 0 {
            if text.get(end) != Some(separator) {
                return None;
            }
            end += 1;
        }
        let group = text.get(end..end + length)?;
        if !group.iter().all(u8::is_ascii_digit) {
            return None;
        }
        digits.extend_from_slice(group);
        end += length;
    }
    let goes_on = text.get(end).is_some_and(u8::is_ascii_digit);
    (!goes_on).then_some((digits, end))
}

/// Whether a known issuer uses card numbers with this length and these first digits, and the check
/// digit is right.
fn is_card_number(digits: &[u8]) -> bool {
    has_known_issuer(digits) && passes_luhn_check(digits)
}

/// Whether a number belongs to Visa, Mastercard, American Express, Discover, JCB, Diners Club,
/// UnionPay or Maestro. Visa's old numbers of 13 digits are left out: bar codes look the same.
fn has_known_issuer(digits: &[u8]) -> bool {
    let first = digits
        .iter()
        .take(4)
        .fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    match digits.len() {
        14 => matches!(first, 3000..=3059 | 3600..=3699 | 3800..=3999),
        15 => matches!(first, 3400..=3499 | 3700..=3799),
        16 => {
            matches!(first, 2221..=2720 | 3528..=3589 | 4000..=5999 | 6011 | 6200..=6299 | 6440..=6599)
        }
        19 => {
            matches!(first, 4000..=4999 | 5000..=5099 | 5600..=5899 | 6011 | 6200..=6299 | 6440..=6599)
        }
        _ => false,
    }
}

fn passes_luhn_check(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(n, digit)| {
            let value = u32::from(digit - b'0') * if n % 2 == 1 { 2 } else { 1 };
            value / 10 + value % 10
        })
        .sum();
    sum.is_multiple_of(10)
}

/// Returns the end of an IBAN, written in one piece or in groups of four.
pub(crate) fn find_iban_end(text: &[u8], at: usize) -> Option<usize> {
    let country = text.get(at..at + 2)?;
    let (_, length) = IBAN_LENGTHS_BY_COUNTRY
        .iter()
        .find(|(code, _)| code.as_slice() == country)?;
    let is_spaced = text.get(at + 4) == Some(&b' ');
    let mut account = Vec::with_capacity(*length);
    let mut end = at;
    while account.len() < *length {
        if is_spaced && !account.is_empty() && account.len() % 4 == 0 {
            if text.get(end) != Some(&b' ') {
                return None;
            }
            end += 1;
        }
        account.push(
            *text
                .get(end)
                .filter(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())?,
        );
        end += 1;
    }
    let has_check_digits = account[2..4].iter().all(u8::is_ascii_digit);
    (has_check_digits && iban_remainder_mod_97(&account) == 1).then_some(end)
}

/// Whether a text may be the beginning of an IBAN: the code of a country that uses IBANs, then two
/// digits, as far as the text goes.
pub(crate) fn can_be_iban_prefix(text: &[u8]) -> bool {
    let is_country = |code: &[u8; 2]| code.iter().zip(text).all(|(a, b)| a == b);
    IBAN_LENGTHS_BY_COUNTRY
        .iter()
        .any(|(code, _)| is_country(code))
        && text.iter().skip(2).take(2).all(u8::is_ascii_digit)
}

/// Returns the remainder of an IBAN modulo 97, with its first four characters moved to the end and
/// letters read as 10 to 35.
fn iban_remainder_mod_97(account: &[u8]) -> u32 {
    let (front, rest) = account.split_at(4);
    rest.iter().chain(front).fold(0, |sum, byte| match byte {
        b'0'..=b'9' => (sum * 10 + u32::from(byte - b'0')) % 97,
        _ => (sum * 100 + u32::from(byte - b'A') + 10) % 97,
    })
}

/// Returns the end of a social security number, written with dashes, whose area number (the first
/// three digits) is assigned.
pub(crate) fn find_ssn_end(text: &[u8], at: usize) -> Option<usize> {
    let (digits, end) = read_grouped_digits(text, at, &[3, 2, 4])?;
    let is_given_out = text[at + 3] == b'-'
        && !matches!(&digits[..3], b"000" | b"666" | [b'9', ..])
        && &digits[3..5] != b"00"
        && &digits[5..] != b"0000";
    is_given_out.then_some(end)
}
