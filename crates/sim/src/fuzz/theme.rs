//! What random runs are about: for each theme the kinds of acts that it has, and how often each
//! comes. A new kind of act is a name here, an arm in `generate.rs`, and a weight in a mix.

/// A kind of act, see [`super::Act`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    SetApp,
    DropApp,
    Assign,
    Unassign,
    LaneWeight,
    LaneOption,
    ReplaceRoot,
    StartTurns,
    StopTurns,
    Affinity,
    TaskWeight,
    MoveTask,
    /// `cpu.weight`, or `cpu.idle`.
    CgroupShare,
    CgroupMax,
    RemoveCgroup,
    CpuOff,
    CpuOn,
    Detach,
    Load,
}

/// Kinds of acts, each with its weight. What a seed gives follows from their order too.
pub(super) type Mix = &'static [(Kind, u64)];

/// Every kind but what ends or begins a program, which a case has at most once beside its theme.
pub(super) const ANYTHING: Mix = &[
    (Kind::SetApp, 3),
    (Kind::DropApp, 1),
    (Kind::Assign, 2),
    (Kind::Unassign, 2),
    (Kind::LaneWeight, 1),
    (Kind::ReplaceRoot, 1),
    (Kind::StartTurns, 2),
    (Kind::StopTurns, 1),
    (Kind::Affinity, 1),
    (Kind::TaskWeight, 1),
    (Kind::MoveTask, 2),
    (Kind::CgroupShare, 1),
    (Kind::RemoveCgroup, 1),
    (Kind::CgroupMax, 1),
    (Kind::LaneOption, 1),
    (Kind::CpuOff, 1),
    (Kind::CpuOn, 1),
];

/// What a case is mostly about, so that acts of one kind meet each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Theme {
    /// All there is.
    Anything,
    /// The root lane is replaced, and no application has one: only this.
    Root,
    /// Applications' lanes come, go and are replaced.
    Lanes,
    /// The root's share goes round by the timer.
    Turns,
    /// `cpu.weight`, beside lanes of which some have a weight of their own.
    Shares,
    /// `cpu.max`.
    Limits,
    /// Tasks move, and change their affinities.
    Moves,
    /// CPUs go off line and come back.
    Hotplug,
    /// Programs are detached and come anew.
    Programs,
    /// The least quotas that `cpu.max` takes, for many hogs on many CPUs, for longer than anybody
    /// may be parked.
    Quotas,
    /// `cpu.max` is written again and again, as tasks move and make system calls.
    Changes,
}

impl Theme {
    /// Each with what it is called on a command line.
    pub const ALL: [(&'static str, Theme); 11] = [
        ("anything", Theme::Anything),
        ("root", Theme::Root),
        ("lanes", Theme::Lanes),
        ("turns", Theme::Turns),
        ("shares", Theme::Shares),
        ("limits", Theme::Limits),
        ("moves", Theme::Moves),
        ("hotplug", Theme::Hotplug),
        ("programs", Theme::Programs),
        ("quotas", Theme::Quotas),
        ("changes", Theme::Changes),
    ];

    /// So many of these, the first ones, a seed alone may give. Others have to be asked for, so that what
    /// a seed gives stays as it was.
    pub(super) const DRAWN: usize = 10;

    /// Two in three acts of a case come from here, the others from [`ANYTHING`]; under
    /// [`Theme::Root`] all do.
    pub(super) fn mix(self) -> Mix {
        match self {
            Theme::Anything => ANYTHING,
            // Of an application's lane there is none: only the root's has options.
            Theme::Root => &[
                (Kind::ReplaceRoot, 3),
                (Kind::Affinity, 1),
                (Kind::TaskWeight, 1),
                (Kind::CpuOff, 1),
                (Kind::CpuOn, 1),
            ],
            Theme::Lanes => &[
                (Kind::SetApp, 3),
                (Kind::DropApp, 1),
                (Kind::Assign, 2),
                (Kind::Unassign, 2),
                (Kind::LaneWeight, 1),
                (Kind::ReplaceRoot, 1),
            ],
            Theme::Turns => &[(Kind::ReplaceRoot, 1), (Kind::StartTurns, 2), (Kind::StopTurns, 1)],
            Theme::Shares => &[
                (Kind::SetApp, 1),
                (Kind::Assign, 2),
                (Kind::Unassign, 1),
                (Kind::LaneWeight, 1),
                (Kind::CgroupShare, 3),
            ],
            Theme::Limits => &[
                (Kind::MoveTask, 1),
                (Kind::RemoveCgroup, 1),
                (Kind::CgroupMax, 3),
                (Kind::LaneOption, 1),
            ],
            Theme::Moves => {
                &[(Kind::Assign, 1), (Kind::Unassign, 1), (Kind::Affinity, 1), (Kind::MoveTask, 2)]
            }
            Theme::Hotplug => &[(Kind::Affinity, 1), (Kind::CpuOff, 2), (Kind::CpuOn, 1)],
            Theme::Programs => &[(Kind::CpuOff, 1), (Kind::Detach, 1), (Kind::Load, 2)],
            Theme::Quotas => &[
                (Kind::Assign, 1),
                (Kind::MoveTask, 1),
                (Kind::RemoveCgroup, 1),
                (Kind::CgroupMax, 3),
            ],
            Theme::Changes => &[
                (Kind::Assign, 1),
                (Kind::Affinity, 1),
                (Kind::MoveTask, 3),
                (Kind::RemoveCgroup, 1),
                (Kind::CgroupMax, 10),
            ],
        }
    }
}
