//! Kinds of events: a watcher of a run receives only the kinds that it asks for.

use crate::trace::What;

/// A set of kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds(u64);

macro_rules! kinds {
    ($($name:ident $bit:literal $what:pat,)*) => {
        #[allow(missing_docs)]
        impl Kinds {
            $(pub const $name: Kinds = Kinds(1 << $bit);)*
        }

        impl What {
            /// Its kind, as a place below [`Kinds::COUNT`].
            pub(crate) fn kind(&self) -> usize {
                match self {
                    $($what => $bit,)*
                }
            }
        }
    };
}

kinds! {
    ARRIVE 0 What::Arrive { .. },
    WAKE 1 What::Wake,
    ENQUEUE 2 What::Enqueue,
    DEQUEUE 3 What::Dequeue,
    INSERT 4 What::Insert(_),
    REMOVE 5 What::Remove(_),
    START 6 What::Start,
    STOP 7 What::Stop { .. },
    SLEEP 8 What::Sleep,
    EXIT 9 What::Exit,
    MIGRATE 10 What::Migrate,
    ALLOWED 11 What::Allowed(_),
    WEIGHT 12 What::Weight(_),
    KICK 13 What::Kick { .. },
    IDLE 14 What::Idle,
    BUSY 15 What::Busy,
    OFFLINE 16 What::Offline,
    ONLINE 17 What::Online,
    NOTE 18 What::Note(_),
    CALL 19 What::Call { .. },
    MAKE_QUEUE 20 What::MakeQueue(_),
    DESTROY_QUEUE 21 What::DestroyQueue(_),
    CGROUP 22 What::Cgroup { .. },
    MEMBER 23 What::Member(_),
    LIMIT 24 What::Limit { .. },
    LANES 25 What::Lanes(_),
    ASSIGN 26 What::Assign { .. },
    CALM 27 What::Calm,
    DETACHED 28 What::Detached,
    BYPASS 29 What::Bypass(_),
    CGROUP_WEIGHT 30 What::CgroupWeight { .. },
    LEFT 31 What::Left,
    SYSCALL 32 What::Syscall(_),
    GUEST 33 What::Guest,
}

impl Kinds {
    /// Every kind.
    pub const ALL: Kinds = Kinds(u64::MAX);
    /// No place of a kind is as high.
    pub(crate) const COUNT: usize = 34;

    /// Both sets together.
    pub const fn and(self, other: Kinds) -> Kinds {
        Kinds(self.0 | other.0)
    }

    /// Whether the kind at that place is in the set.
    pub(crate) const fn has(self, kind: usize) -> bool {
        self.0 >> kind & 1 == 1
    }
}
