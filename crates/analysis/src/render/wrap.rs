//! Sentences broken into lines no wider than a terminal.

/// Wider lines are hard to read, however wide the terminal is; command-line help stops there, too.
const MOST_COLUMNS: usize = 100;

/// In a narrower terminal every other word would stand alone.
const LEAST_COLUMNS: usize = 40;

/// What further lines of a sentence begin with, so that its mark stands out.
const INDENT: &str = "  ";

/// The text with its lines broken between words to fit that many columns; as it is where `columns` is `None`.
pub(super) fn wrapped(text: &str, columns: Option<usize>) -> String {
    let Some(columns) = columns else { return text.to_owned() };
    let columns = columns.clamp(LEAST_COLUMNS, MOST_COLUMNS);
    let mut wrapped = String::with_capacity(text.len() + text.len() / columns * 3);
    for line in text.split_inclusive('\n') {
        append_wrapped(line, columns, &mut wrapped);
    }
    wrapped
}

fn append_wrapped(line: &str, columns: usize, wrapped: &mut String) {
    let mut column = 0;
    for word in line.split_inclusive(' ') {
        let length = word.trim_end().chars().count();
        // A word that is too long by itself stands on a line of its own.
        if column > INDENT.len() && column + length > columns {
            wrapped.truncate(wrapped.trim_end_matches(' ').len());
            wrapped.push('\n');
            wrapped.push_str(INDENT);
            column = INDENT.len();
        }
        wrapped.push_str(word);
        column += word.chars().count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_lose_no_word() {
        let text = "- Of 12,345 GetPage of tenant 3aabbf1a5d0f4e2a9d3c1b2a49505101 by the compute at 10.0.0.7 half were needless.\n\
                    ! Short.\n\nNote: ééé ééé ééé ééé ééé ééé ééé ééé ééé ééé ééé.\n";
        assert_eq!(wrapped(text, None), text);
        for columns in [0, 40, 41, 57, 80, 100, usize::MAX] {
            let narrow = wrapped(text, Some(columns));
            let most = columns.clamp(LEAST_COLUMNS, MOST_COLUMNS);
            assert!(narrow.lines().all(|line| line.chars().count() <= most && !line.ends_with(' ')), "{narrow}");
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&narrow), words(text));
            assert!(narrow.lines().filter(|line| !line.is_empty()).all(|line| {
                line.starts_with("- Of")
                    || line.starts_with("! Short")
                    || line.starts_with("Note")
                    || line.starts_with(INDENT)
            }));
        }
        assert_eq!(wrapped("- a word\n", Some(40)), "- a word\n");
        let long = format!("- {}\n", "x".repeat(60));
        assert_eq!(wrapped(&long, Some(40)), long, "a word is never cut");
    }
}
