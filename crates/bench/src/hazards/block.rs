//! The generated part of a Markdown file.

use anyhow::{Context, Result};

const START: &str = "<!-- hazards -->\n";
const END: &str = "<!-- /hazards -->";

/// Replaces the text between the two markers.
pub(super) fn replace(text: &str, block: &str) -> Result<String> {
    let missing = |marker: &str| format!("the file has no line `{}`: add both markers", marker.trim_end());
    let (before, rest) = text.split_once(START).with_context(|| missing(START))?;
    let (_, after) = rest.split_once(END).with_context(|| missing(END))?;
    Ok(format!("{before}{START}{block}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_between_the_markers_changes() {
        let file = "# Why\n<!-- hazards -->\nold\nlines\n<!-- /hazards -->\nrest\n";
        let replaced = replace(file, "new\n").unwrap();
        assert_eq!(replaced, "# Why\n<!-- hazards -->\nnew\n<!-- /hazards -->\nrest\n");
        assert_eq!(replace(&replaced, "old\nlines\n").unwrap(), file);
    }

    #[test]
    fn a_file_without_a_marker_is_refused() {
        assert!(replace("# Why\n<!-- /hazards -->\n", "new\n").is_err());
        assert!(replace("# Why\n<!-- hazards -->\n", "new\n").is_err());
    }
}
