//! "Did you mean …?"

/// Longer words are never compared, to bound the size of the distance table.
const MAX_CHARS: usize = 32;

/// The candidate nearest to `word`, ignoring case, if it is near enough: edit distance 1 for words up to four
/// characters, 2 for longer ones. On a tie the first candidate wins.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let word: Vec<char> = word
        .chars()
        .flat_map(char::to_lowercase)
        .take(MAX_CHARS + 1)
        .collect();
    if word.len() < 2 || word.len() > MAX_CHARS {
        return None;
    }
    let cap = if word.len() <= 4 { 1 } else { 2 };
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let other: Vec<char> = candidate
            .chars()
            .flat_map(char::to_lowercase)
            .take(MAX_CHARS + 1)
            .collect();
        if other.len().abs_diff(word.len()) > cap {
            continue;
        }
        let distance = edit_distance(&word, &other);
        if distance <= cap && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Edit distance with transpositions of neighbours (optimal string alignment).
fn edit_distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_understood() {
        let clauses = ["MATCH", "MERGE", "RETURN", "WITH", "SET"];
        for (typed, meant) in [
            ("MTACH", "MATCH"),
            ("retrun", "RETURN"),
            ("WIHT", "WITH"),
            ("MERG", "MERGE"),
            ("set", "SET"),
        ] {
            assert_eq!(nearest(typed, clauses), Some(meant), "{typed}");
        }
        for typed in ["x", "nothing", "WXYZ", &"M".repeat(10_000)] {
            assert_eq!(nearest(typed, clauses), None, "{typed:.20}");
        }
    }
}
