//! Bar charts as SVG, for light and dark pages.

use std::fmt::Write;

/// The widths of a chart, of its labels, and of the values behind the bars.
#[derive(Clone, Copy)]
pub(crate) struct Widths {
    all: f64,
    labels: f64,
    values: f64,
}

const WIDE: Widths = Widths {
    all: 800.0,
    labels: 300.0,
    values: 150.0,
};

/// Legible on a phone.
pub(crate) const NARROW: Widths = Widths {
    all: 400.0,
    labels: 140.0,
    values: 60.0,
};

const TOP: f64 = 44.0;
const ROW: f64 = 26.0;
const BAR: f64 = 16.0;

/// Horizontal bars, each labelled with its value.
pub(crate) struct Chart {
    /// Its file name, without the name of the part.
    pub(crate) file: String,
    pub(crate) title: String,
    pub(crate) bars: Vec<Bar>,
    /// The names of a bar's segments, if it has several.
    pub(crate) parts: Vec<String>,
}

pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) parts: Vec<f64>,
    pub(crate) text: String,
    /// Whether it belongs to this project.
    pub(crate) ours: bool,
}

/// The chart has its own background, because an image gets the color scheme of the system, not that of the page.
const STYLE: &str = "\
    text { font: 13px system-ui, sans-serif; fill: #1f2328 } .title { font-weight: 600 } .ground { fill: #ffffff } \
    .ours0 { fill: #0969da } .ours1 { fill: #80ccff } .other0 { fill: #6e7781 } .other1 { fill: #afb8c1 } \
    @media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .ground { fill: #0d1117 } \
    .ours0 { fill: #2f81f7 } .ours1 { fill: #1a4a8f } .other0 { fill: #8b949e } .other1 { fill: #545d68 } }";

impl Chart {
    pub(crate) fn svg(&self) -> String {
        self.svg_of(WIDE)
    }

    pub(crate) fn svg_of(
        &self,
        Widths {
            all: width,
            labels,
            values,
        }: Widths,
    ) -> String {
        let legend = if self.parts.is_empty() { 0.0 } else { ROW };
        let height = TOP + self.bars.len() as f64 * ROW + legend + 10.0;
        let longest = self
            .bars
            .iter()
            .map(|bar| bar.parts.iter().sum::<f64>())
            .fold(0.0, f64::max);
        let scale = (width - labels - values) / longest.max(f64::MIN_POSITIVE);
        let title = escape(&self.title);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n\
             <rect class=\"ground\" width=\"{width}\" height=\"{height}\" rx=\"6\"/>\n\
             <text class=\"title\" x=\"14\" y=\"27\">{title}</text>\n"
        );
        for (index, bar) in self.bars.iter().enumerate() {
            let y = TOP + index as f64 * ROW;
            let baseline = y + 13.0;
            let owner = owner(bar.ours);
            line(&mut svg, labels - 10.0, baseline, "end", &bar.label);
            let mut x = labels;
            for (part, value) in bar.parts.iter().enumerate() {
                // A bar of nearly zero is a thin line.
                let width = (value * scale).max(1.0);
                let _ = writeln!(
                    svg,
                    "<rect class=\"{owner}{part}\" x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAR}\"/>"
                );
                x += width;
            }
            line(&mut svg, x + 8.0, baseline, "start", &bar.text);
        }
        let y = TOP + self.bars.len() as f64 * ROW + 4.0;
        let mut x = labels;
        for (part, name) in self.parts.iter().enumerate() {
            for ours in [true, false] {
                let owner = owner(ours);
                let _ = writeln!(
                    svg,
                    "<rect class=\"{owner}{part}\" x=\"{x}\" y=\"{y}\" width=\"12\" height=\"12\"/>"
                );
                x += 15.0;
            }
            line(&mut svg, x + 3.0, y + 11.0, "start", name);
            x += 110.0;
        }
        svg + "</svg>\n"
    }
}

fn owner(ours: bool) -> &'static str {
    if ours { "ours" } else { "other" }
}

fn line(svg: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let text = escape(text);
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
    );
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_value() {
        let bar = |value: f64| Bar {
            label: "a < b".to_owned(),
            parts: vec![value],
            text: "x".to_owned(),
            ours: true,
        };
        let chart = Chart {
            file: String::new(),
            title: "t".to_owned(),
            bars: vec![bar(100.0), bar(50.0), bar(0.0)],
            parts: Vec::new(),
        };
        let svg = chart.svg();
        for width in ["350.0", "175.0", "1.0"] {
            assert!(svg.contains(&format!("width=\"{width}\"")), "{width}: {svg}");
        }
        assert!(svg.contains("a &lt; b"));
    }
}
