use std::fmt;

/// Why something cannot be worked out from the figures that were given.
#[derive(Clone, Debug, PartialEq)]
pub enum StrategyError {
    /// There is nothing to share the time between.
    NoApps,
    /// A figure is not a positive, finite number.
    BadFigure {
        /// The part that it belongs to.
        app: String,
        /// Which figure it is.
        figure: &'static str,
        /// The value that was given.
        value: f64,
    },
    /// A name that is not one of those known.
    UnknownName {
        /// What sort of name it is.
        what: &'static str,
        /// The name that was given.
        given: String,
        /// The names that there are.
        known: Vec<String>,
    },
}

impl fmt::Display for StrategyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StrategyError::NoApps => write!(f, "there is no part to give a turn to"),
            StrategyError::BadFigure { app, figure, value } => {
                write!(f, "the {figure} of '{app}' is {value}, not a positive number")
            }
            StrategyError::UnknownName { what, given, known } => {
                write!(f, "'{given}' is no {what}; there is {}", known.join(", "))
            }
        }
    }
}

impl std::error::Error for StrategyError {}
