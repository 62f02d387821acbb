//! Parses the text tables in which unit tests list their cases.

/// Reads the table of a test: one row per line, with fields separated by `=>`. `⏎` in a field
/// stands for a line break.
pub(crate) fn parse_test_case_table<const N: usize>(
    table: &str,
) -> impl Iterator<Item = [String; N]> {
    table.trim().lines().map(|row| {
        let fields = row.split("=>").map(|field| field.trim().replace('⏎', "\n"));
        let fields: Vec<String> = fields.collect();
        fields.try_into().unwrap()
    })
}
