//! Parses tables of test cases, written as text.

/// Reads a table: one row per line, with fields separated by `=>`. `⏎` in a field stands for a line
/// break.
pub(crate) fn parse_table_rows<const N: usize>(table: &str) -> impl Iterator<Item = [String; N]> {
    table.trim().lines().map(|row| {
        let fields = row.split("=>").map(|field| field.trim().replace('⏎', "\n"));
        let fields: Vec<String> = fields.collect();
        assert_eq!(
            fields.len(),
            N,
            "the row `{row}` has another number of fields"
        );
        std::array::from_fn(|at| fields[at].clone())
    })
}
