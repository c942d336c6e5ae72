//! The manifest as TOML has it. Values whose meaning is checked later carry their
//! place in the file, so that the error can name the line.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::Reader;

/// A table in which the order of the entries can be told from their places.
pub(super) type Table<T> = BTreeMap<Spanned<String>, T>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    pub schema: Spanned<i64>,
    pub name: Spanned<String>,
    pub summary: String,
    #[serde(default)]
    pub uses: Vec<Spanned<String>>,
    #[serde(default)]
    pub param: Table<Param>,
    pub prepare: Option<Prepare>,
    pub stage: Option<Step>,
    #[serde(default)]
    pub form: Table<Form>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Param {
    pub default: Spanned<toml::Value>,
    #[serde(default)]
    pub choices: Vec<Spanned<toml::Value>>,
    pub auto: Option<Spanned<Auto>>,
    #[serde(default)]
    pub help: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Auto {
    pub emulated: Spanned<toml::Value>,
    pub native: Spanned<toml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Prepare {
    pub command: Spanned<Vec<String>>,
    #[serde(default = "default_step_timeout")]
    pub timeout_s: Spanned<f64>,
    pub params: Option<Vec<Spanned<String>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    pub command: Spanned<Vec<String>>,
    #[serde(default = "default_step_timeout")]
    pub timeout_s: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Form {
    pub summary: String,
    #[serde(default = "default_unit")]
    pub unit: String,
    pub objective: Option<Spanned<String>>,
    #[serde(default)]
    pub parts: Vec<Spanned<String>>,
    #[serde(default)]
    pub process: Table<Process>,
    pub load: Option<Load>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Process {
    pub command: Spanned<Vec<String>>,
    pub cgroup: Option<Spanned<String>>,
    #[serde(default)]
    pub env: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    pub when: Table<Spanned<toml::Value>>,
    pub ready: Option<Spanned<Ready>>,
    pub stop: Option<Spanned<String>>,
    pub stop_grace_s: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ready {
    pub http: Option<Spanned<String>>,
    pub command: Option<Spanned<Vec<String>>>,
    pub file: Option<Spanned<String>>,
    #[serde(default = "default_ready_timeout")]
    pub timeout_s: Spanned<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Load {
    pub command: Spanned<Vec<String>>,
    pub cgroup: Option<Spanned<String>>,
    #[serde(default)]
    pub env: BTreeMap<String, Spanned<String>>,
    pub reads: Reader,
    pub timeout_s: Option<Spanned<f64>>,
}

fn default_unit() -> String {
    "requests".to_owned()
}

/// Long enough to fetch packages on a slow line.
fn default_step_timeout() -> Spanned<f64> {
    Spanned::new(0..0, 900.0)
}

/// An application whose imports come over a network file system takes half a minute.
fn default_ready_timeout() -> Spanned<f64> {
    Spanned::new(0..0, 60.0)
}
