//! Drawings as SVG text: scales, axes, lines. Colours come from the page's style, so that they follow light and dark.

use std::fmt::Write as _;

/// Room around the plot for labels.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 32.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 40.0;
/// Room in a file for the title, a line of the legend, and the sample of a line in it.
const FILE_TITLE: f64 = 36.0;
const LEGEND_ROW: f64 = 16.0;
const LEGEND_KEY: f64 = 20.0;
const NAMESPACE: &str = "http://www.w3.org/2000/svg";
/// Lines of different colours; a chart has no more.
pub(crate) const COLOURS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Steps {
    Even,
    Logarithmic,
}

/// What an axis shows.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    pub(crate) title: &'static str,
    pub(crate) least: f64,
    pub(crate) greatest: f64,
    pub(crate) steps: Steps,
    /// Where there are lines, each with its label.
    pub(crate) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// A logarithmic axis of times in microseconds that holds all of them.
    pub(crate) fn times(title: &'static str, values: impl Iterator<Item = f64>) -> Axis {
        let (least, greatest) = bounds(values.filter(|value| *value > 0.0)).unwrap_or((1.0, 1000.0));
        let (low, high) = (least.log10().floor() as i32, greatest.log10().ceil() as i32);
        let high = high.max(low + 1);
        let ticks = (low..=high).map(|power| (10_f64.powi(power), time(10_f64.powi(power))));
        let (least, greatest) = (10_f64.powi(low), 10_f64.powi(high));
        Axis { title, least, greatest, steps: Steps::Logarithmic, ticks: ticks.collect() }
    }

    /// An even axis from 0 that holds all values.
    pub(crate) fn from_zero(title: &'static str, values: impl Iterator<Item = f64>) -> Axis {
        let greatest = bounds(values).map_or(1.0, |(_, greatest)| greatest).max(1e-9);
        let raw = greatest / 4.0;
        let power = 10_f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|part| part * power).into_iter().find(|step| *step >= raw);
        let step = step.unwrap_or(raw);
        let count = (greatest / step).ceil().max(1.0);
        let ticks = (0..=count as usize).map(|index| (index as f64 * step, number(index as f64 * step)));
        Axis { title, least: 0.0, greatest: count * step, steps: Steps::Even, ticks: ticks.collect() }
    }

    /// Where a value lies, from 0 to 1; values outside lie on the rim.
    fn place(&self, value: f64) -> f64 {
        let place = match self.steps {
            Steps::Even => (value - self.least) / (self.greatest - self.least),
            Steps::Logarithmic => (value.max(1e-12) / self.least).ln() / (self.greatest / self.least).ln(),
        };
        place.clamp(0.0, 1.0)
    }
}

fn bounds(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |seen, value| match seen {
        None => Some((value, value)),
        Some((least, greatest)) => Some((least.min(value), greatest.max(value))),
    })
}

/// A plot that is being drawn.
pub(crate) struct Plot {
    width: f64,
    height: f64,
    x: Axis,
    y: Axis,
    body: String,
    legend: Vec<(String, String)>,
}

impl Plot {
    pub(crate) fn new(width: f64, height: f64, x: Axis, y: Axis) -> Plot {
        Plot { width, height, x, y, body: String::new(), legend: Vec::new() }
    }

    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let (plot_width, plot_height) = (self.width - LEFT - RIGHT, self.height - TOP - BOTTOM);
        (LEFT + self.x.place(x) * plot_width, TOP + (1.0 - self.y.place(y)) * plot_height)
    }

    /// A line through points; `class` is its colour in the style.
    pub(crate) fn line(&mut self, name: &str, class: &str, points: &[(f64, f64)]) {
        let path: Vec<String> = points
            .iter()
            .map(|(x, y)| {
                let (x, y) = self.at(*x, *y);
                format!("{x:.1},{y:.1}")
            })
            .collect();
        let _ = writeln!(
            self.body,
            "<polyline class=\"line {class}\" points=\"{}\"><title>{}</title></polyline>",
            path.join(" "),
            escaped(name)
        );
        self.legend.push((name.to_owned(), class.to_owned()));
    }

    /// Points that tell more when they are pointed at.
    pub(crate) fn dots(&mut self, class: &str, dots: &[(f64, f64, String)]) {
        for (x, y, told) in dots {
            let (x, y) = self.at(*x, *y);
            let _ = writeln!(
                self.body,
                "<circle class=\"dot {class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"><title>{}</title></circle>",
                escaped(told)
            );
        }
    }

    /// An area from the bottom up to points.
    pub(crate) fn area(&mut self, class: &str, points: &[(f64, f64)]) {
        let (Some(first), Some(last)) = (points.first(), points.last()) else { return };
        let ends = [(last.0, self.y.least), (first.0, self.y.least)];
        let path: Vec<String> = points
            .iter()
            .chain(&ends)
            .map(|(x, y)| {
                let (x, y) = self.at(*x, *y);
                format!("{x:.1},{y:.1}")
            })
            .collect();
        let _ = writeln!(self.body, "<polygon class=\"area {class}\" points=\"{}\"/>", path.join(" "));
    }

    /// A filled cell from one corner to the other; `strength` from 0 to 1.
    pub(crate) fn cell(&mut self, from: (f64, f64), to: (f64, f64), strength: f64, told: &str) {
        let ((left, bottom), (right, top)) = (self.at(from.0, from.1), self.at(to.0, to.1));
        let _ = writeln!(
            self.body,
            "<rect class=\"heat\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
             fill-opacity=\"{strength:.2}\"><title>{}</title></rect>",
            (right - left).max(0.5),
            (bottom - top).max(0.5),
            escaped(told)
        );
    }

    /// An upright line with a word on it.
    pub(crate) fn mark(&mut self, x: f64, word: &str) {
        let (at, _) = self.at(x, self.y.least);
        let bottom = self.height - BOTTOM;
        let _ = writeln!(
            self.body,
            "<line class=\"mark\" x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\"/>\
             <text class=\"mark-word\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            at + 4.0,
            TOP + 12.0,
            escaped(word)
        );
    }

    /// The whole drawing, with its legend.
    pub(crate) fn finish(mut self, label: &'static str) -> Drawing {
        let mut text = String::new();
        let (right, bottom) = (self.width - RIGHT, self.height - BOTTOM);
        for (value, word) in &self.y.ticks {
            let (_, y) = self.at(self.x.least, *value);
            let _ = writeln!(
                text,
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                LEFT - 6.0,
                y + 4.0,
                escaped(word)
            );
        }
        for (value, word) in &self.x.ticks {
            let (x, _) = self.at(*value, self.y.least);
            let _ = writeln!(
                text,
                "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>\
                 <text class=\"tick middle\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
                bottom + 16.0,
                escaped(word)
            );
        }
        let _ = writeln!(
            text,
            "<text class=\"title middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            (LEFT + right) / 2.0,
            self.height - 6.0,
            escaped(self.x.title)
        );
        let middle = (TOP + bottom) / 2.0;
        let _ = writeln!(
            text,
            "<text class=\"title middle\" transform=\"translate(14 {middle:.1}) rotate(-90)\">{}</text>",
            escaped(self.y.title)
        );
        text.push_str(&self.body);
        self.body = text;
        Drawing { width: self.width, height: self.height, label, body: self.body, legend: self.legend }
    }
}

/// A plot that is drawn: part of a page, or a file of its own.
#[derive(Clone, Debug)]
pub(crate) struct Drawing {
    width: f64,
    height: f64,
    label: &'static str,
    body: String,
    /// Names and classes of the lines.
    legend: Vec<(String, String)>,
}

impl Drawing {
    /// As part of a page, whose style and colours it takes.
    pub(crate) fn figure(&self) -> String {
        let mut text = String::from("<figure>");
        if self.legend.len() > 1 {
            text.push_str("<div class=\"legend\">");
            for (name, class) in &self.legend {
                let _ = write!(text, "<span><i class=\"key {class}\"></i>{}</span>", escaped(name));
            }
            text.push_str("</div>");
        }
        let Drawing { width, height, label, body, .. } = self;
        let _ = writeln!(
            text,
            "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\" xmlns=\"{NAMESPACE}\">",
            escaped(label)
        );
        text.push_str(body);
        text.push_str("</svg></figure>\n");
        text
    }

    /// As a file that needs nothing else: `style` has plain colours, and title and legend stand above the plot.
    pub(crate) fn file(&self, title: &str, style: &str, paper: &str) -> String {
        let Drawing { width, height, label, body, legend } = self;
        let rows = if legend.len() > 1 { legend.len() as f64 } else { 0.0 };
        let head = FILE_TITLE + rows * LEGEND_ROW;
        let whole = height + head;
        let mut text = format!(
            "<svg xmlns=\"{NAMESPACE}\" width=\"{width}\" height=\"{whole}\" viewBox=\"0 0 {width} {whole}\" role=\"img\" \
             aria-label=\"{}\">\n<style>\n{style}</style>\n<rect width=\"{width}\" height=\"{whole}\" fill=\"{paper}\"/>\n\
             <text class=\"title\" x=\"{LEFT}\" y=\"22\">{}</text>\n",
            escaped(label),
            escaped(title),
        );
        for (index, (name, class)) in legend.iter().enumerate().take(rows as usize) {
            let y = FILE_TITLE + index as f64 * LEGEND_ROW;
            let _ = writeln!(
                text,
                "<polyline class=\"line {class}\" points=\"{LEFT},{y} {},{y}\"/><text x=\"{}\" y=\"{}\">{}</text>",
                LEFT + LEGEND_KEY,
                LEFT + LEGEND_KEY + 6.0,
                y + 4.0,
                escaped(name)
            );
        }
        let _ = write!(text, "<g transform=\"translate(0 {head})\">\n{body}</g>\n</svg>\n");
        text
    }
}

/// Microseconds with a unit that fits.
pub(crate) fn time(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{} s", number(us / 1e6)),
        us if us >= 1e3 => format!("{} ms", number(us / 1e3)),
        us => format!("{} µs", number(us)),
    }
}

/// With as many digits as say something, and thousands apart.
pub(crate) fn number(value: f64) -> String {
    let text = match value.abs() {
        size if size >= 100.0 || size == size.round() => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), ""), |(whole, rest)| (whole, rest));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && digit.is_ascii_digit() && (whole.len() - index).is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let rest = rest.trim_end_matches('0');
    if rest.is_empty() { grouped } else { format!("{grouped}.{rest}") }
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_read_well() {
        for (value, expected) in [
            (0.0, "0"),
            (5.0, "5"),
            (0.256, "0.26"),
            (12.34, "12.3"),
            (1234.5, "1,234"),
            (-1234.0, "-1,234"),
            (1_234_567.0, "1,234,567"),
        ] {
            assert_eq!(number(value), expected);
        }
        for (us, expected) in [(1.0, "1 µs"), (1500.0, "1.5 ms"), (2_000_000.0, "2 s"), (150.0, "150 µs")] {
            assert_eq!(time(us), expected);
        }
    }

    #[test]
    fn axes_hold_their_values_on_round_lines() {
        let axis = Axis::from_zero("", [3.0, 870.0].into_iter());
        assert_eq!(axis.ticks.last().map(|(value, _)| *value), Some(1000.0));
        assert_eq!((axis.least, axis.greatest, axis.place(500.0)), (0.0, 1000.0, 0.5));
        let axis = Axis::times("", [150.0, 9000.0].into_iter());
        let words: Vec<&str> = axis.ticks.iter().map(|(_, word)| word.as_str()).collect();
        assert_eq!(words, ["100 µs", "1 ms", "10 ms"]);
        assert!((axis.place(1000.0) - 0.5).abs() < 1e-9);
        assert_eq!((axis.place(0.0), axis.place(1e9)), (0.0, 1.0));
        assert_eq!(Axis::times("", std::iter::empty()).ticks.len(), 4);
    }

    #[test]
    fn what_is_drawn_is_well_formed() {
        let x = Axis::from_zero("seconds", [10.0].into_iter());
        let mut plot = Plot::new(400.0, 200.0, x, Axis::times("latency", [10.0].into_iter()));
        plot.line("a <b> & \"c\"", "c0", &[(0.0, 1.0), (10.0, 10.0)]);
        plot.line("d", "c1", &[(0.0, 1.0)]);
        plot.cell((0.0, 1.0), (1.0, 2.0), 0.5, "x");
        plot.area("c0", &[(0.0, 5.0), (10.0, 5.0)]);
        plot.dots("c0", &[(1.0, 2.0, "t".to_owned())]);
        plot.mark(5.0, "knee");
        let drawing = plot.finish("l");
        let (figure, file) = (drawing.figure(), drawing.file("t & u", ".line{}", "#fff"));
        assert!(file.starts_with("<svg ") && file.contains("t &amp; u") && file.contains("height=\"268\""), "{file}");
        for text in [figure, file] {
            is_well_formed(&text);
        }
    }

    fn is_well_formed(text: &str) {
        assert!(text.contains("a &lt;b&gt; &amp; &quot;c&quot;"), "{text}");
        let opened = text.matches('<').count() - text.matches("</").count() - text.matches("/>").count();
        assert_eq!(opened, text.matches("</").count(), "{text}");
    }
}
