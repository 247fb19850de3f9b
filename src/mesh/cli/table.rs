//! Columns for people. Control characters of what nodes said never reach the terminal.

/// Rows under a head, padded to the widest cell; two blanks between columns, none at the end.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let clean =
        |cell: &str| -> String { cell.chars().map(|c| if c.is_control() { '?' } else { c }).collect() };
    let mut lines: Vec<Vec<String>> = vec![head.iter().map(|cell| (*cell).to_owned()).collect()];
    lines.extend(rows.iter().map(|row| row.iter().map(|cell| clean(cell)).collect()));
    let columns = head.len();
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_stand_under_each_other() {
        let rows = [vec!["a".into(), "x\u{1b}[31m".into()], vec!["längst".into(), String::new()]];
        assert_eq!(super::table(&["NAME", "SAYS"], &rows), "NAME    SAYS\na       x?[31m\nlängst\n");
    }
}
