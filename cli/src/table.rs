//! Tables in plain text: columns as wide as what is in them.

use serde_json::{Map, Value};

/// Between two columns.
const GAP: &str = "  ";

/// A column: what stands above it, and what it is called in JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) heading: &'static str,
    pub(crate) key: &'static str,
}

/// Rows under headings.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Value>>,
}

impl Table {
    /// Columns as pairs of heading and JSON name.
    pub(crate) fn new(columns: &[(&'static str, &'static str)]) -> Table {
        let columns = columns.iter().map(|&(heading, key)| Column { heading, key }).collect();
        Table { columns, rows: Vec::new() }
    }

    /// # Panics
    /// When there are not as many cells as columns.
    pub(crate) fn push(&mut self, cells: impl Into<Vec<Value>>) {
        let cells = cells.into();
        assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(cells);
    }

    /// Headings and rows, a line each, without blanks at their ends.
    pub(crate) fn text(&self) -> String {
        let headings: Vec<String> = self.columns.iter().map(|column| column.heading.to_owned()).collect();
        let rows: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(cell_text).collect()).collect();
        let lines = || std::iter::once(&headings).chain(&rows);
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| lines().map(|line| line[column].chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for line in lines() {
            let cells: Vec<String> = line.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
            text.push_str(cells.join(GAP).trim_end());
            text.push('\n');
        }
        text
    }

    /// The rows as objects, a line each.
    pub(crate) fn json_lines(&self) -> String {
        let mut text = String::new();
        for row in &self.rows {
            let keys = self.columns.iter().map(|column| column.key.to_owned());
            let object: Map<String, Value> = keys.zip(row.iter().cloned()).collect();
            text.push_str(&Value::Object(object).to_string());
            text.push('\n');
        }
        text
    }
}

fn cell_text(cell: &Value) -> String {
    match cell {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(&[("#Name", "name"), ("#N", "count"), ("#Last", "last")]);
        table.push([Value::from("ä"), Value::from(12), Value::Null]);
        table.push([Value::from("longer"), Value::from(3), Value::from("x \"y\"")]);
        table
    }

    #[test]
    fn columns_are_aligned() {
        assert_eq!(sample().text(), "#Name   #N  #Last\nä       12\nlonger  3   x \"y\"\n");
        assert_eq!(Table::new(&[("#A", "a"), ("#B", "b")]).text(), "#A  #B\n");
    }

    #[test]
    fn rows_are_objects_in_json() {
        let json = sample().json_lines();
        let lines: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines[0], serde_json::json!({"name": "ä", "count": 12, "last": null}));
        assert_eq!(lines[1]["last"], "x \"y\"");
    }
}
