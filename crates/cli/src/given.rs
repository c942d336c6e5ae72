//! What the user gave on the command line, option by option, to be said again.
//!
//! It comes from what clap has read, so that no command repeats its options: what was not given
//! has its default then as now.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

/// A command line as it was given, but for options that every command takes.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// The program and its subcommands.
    names: Vec<String>,
    /// By the option's id, in the order in which the command declares them.
    options: Vec<(String, Vec<String>)>,
}

impl Given {
    /// What `matches` holds of a command.
    pub fn of(command: &Command, matches: &ArgMatches) -> Self {
        let mut names = vec![command.get_name().to_owned()];
        let (mut command, mut matches) = (command, matches);
        while let Some((name, inner)) = matches.subcommand()
            && let Some(subcommand) = command.find_subcommand(name)
        {
            names.push(name.to_owned());
            (command, matches) = (subcommand, inner);
        }
        let given = |arg: &&Arg| {
            let id = arg.get_id().as_str();
            !arg.is_global_set()
                && matches.try_contains_id(id).unwrap_or(false)
                && matches.value_source(id) != Some(ValueSource::DefaultValue)
        };
        let option = |arg: &Arg| (arg.get_id().to_string(), words_of(arg, matches));
        let options = command.get_arguments().filter(given).map(option).collect();
        Given { names, options }
    }

    /// The words of a command with those of its options that `keep` takes, by their ids; `names`
    /// stand in place of the subcommands, if there are some.
    pub fn words(&self, names: Option<&[&str]>, keep: impl Fn(&str) -> bool) -> Vec<String> {
        let own = || self.names.clone();
        let mut words = names.map_or_else(own, |n| n.iter().map(|n| (*n).to_owned()).collect());
        let kept = self.options.iter().filter(|(id, _)| keep(id));
        words.extend(kept.flat_map(|(_, words)| words).cloned());
        words
    }
}

/// An option or an argument with its values, as it was given.
fn words_of(arg: &Arg, matches: &ArgMatches) -> Vec<String> {
    let name = match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => String::new(),
    };
    if matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::SetFalse) {
        return vec![name];
    }
    let mut words = Vec::new();
    let occurrences = matches.get_raw_occurrences(arg.get_id().as_str());
    for values in occurrences.into_iter().flatten() {
        let values: Vec<String> = values.map(|v| v.to_string_lossy().into_owned()).collect();
        let values = match arg.get_value_delimiter() {
            Some(delimiter) => vec![values.join(&delimiter.to_string())],
            None => values,
        };
        match (arg.is_positional(), arg.is_require_equals_set(), values.first()) {
            (true, _, _) => words.extend(values),
            (false, true, Some(value)) => words.push(format!("{name}={value}")),
            (false, _, _) => {
                words.push(name.clone());
                words.extend(values);
            }
        }
    }
    words
}

/// Words as a shell reads them back.
pub fn line(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_spaces_survives_a_shell() {
        assert_eq!(quoted("it's here.toml"), r"'it'\''s here.toml'");
        assert_eq!(quoted("examples/webserver.toml"), "examples/webserver.toml");
    }
}
