//! Which function goes to which machine.

use metasched_base::{Error, Kind, Result};
use metasched_scenario::file::{Function, Placer};
use metasched_scenario::random::Random;

/// What a machine has been given.
#[derive(Clone, Debug, Default)]
struct Node {
    functions: Vec<usize>,
    requested: u64,
    used: u64,
}

/// Places functions on so many machines, as they come: in an order that follows from the seed. Returns
/// the places of each machine's functions.
///
/// `room` is to how much requests may come on each, in thousandths of a CPU.
///
/// # Errors
/// `BadInput` where one finds no room.
pub fn place(
    functions: &[Function],
    nodes: u64,
    room: u64,
    placer: Placer,
    seed: u64,
) -> Result<Vec<Vec<usize>>> {
    let mut machines = vec![Node::default(); nodes as usize];
    for at in shuffled(functions.len(), seed) {
        let function = &functions[at];
        let has_room = |node: &&mut Node| node.requested + function.request <= room;
        let fits = machines.iter_mut().filter(has_room);
        // The first of several that are as good.
        let found = match placer {
            Placer::Spread => fits.min_by_key(|node| node.requested),
            Placer::Pack => fits.rev().max_by_key(|node| node.requested),
            Placer::LeastLoaded => fits.min_by_key(|node| node.used),
        };
        let Some(node) = found else {
            let all: u64 = functions.iter().map(|function| function.request).sum();
            let cause = format!(
                "'{}' asks for {} of a CPU, and none has so much left; all ask for {} of {} CPUs",
                function.name,
                decimal(function.request),
                decimal(all),
                decimal(room * nodes)
            );
            return Err(Error::new(
                Kind::BadInput,
                format!("place functions on {nodes} machines"),
                cause,
            )
            .remedy("have more machines, a lower 'request', or a higher 'fill'"));
        };
        node.functions.push(at);
        node.requested += function.request;
        node.used += function.uses;
    }
    Ok(machines.into_iter().map(|node| node.functions).collect())
}

/// Thousandths as people write them.
fn decimal(thousandths: u64) -> f64 {
    thousandths as f64 / 1_000.0
}

fn shuffled(number: usize, seed: u64) -> Vec<usize> {
    let (mut order, mut random) = ((0..number).collect::<Vec<_>>(), Random::new(seed));
    for at in (1..number).rev() {
        order.swap(at, random.within(0, at as u64) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(of: &[(u64, u64)]) -> Vec<Function> {
        let function = |(number, (request, uses)): (usize, &(u64, u64))| Function {
            name: format!("f-{number}").into(),
            request: *request,
            uses: *uses,
            tasks: 0..0,
        };
        of.iter().enumerate().map(function).collect()
    }

    fn sizes(placed: &[Vec<usize>]) -> Vec<usize> {
        placed.iter().map(Vec::len).collect()
    }

    #[test]
    fn each_placer_does_what_its_name_says() {
        let alike = functions(&[(500, 10); 12]);
        assert_eq!(sizes(&place(&alike, 3, 4_000, Placer::Spread, 1).unwrap()), [4, 4, 4]);
        assert_eq!(sizes(&place(&alike, 3, 4_000, Placer::Pack, 1).unwrap()), [8, 4, 0]);
        let heavy = functions(&[(1, 900), (1, 10), (1, 10), (1, 10), (1, 10), (1, 10)]);
        let mut loaded = sizes(&place(&heavy, 2, 4_000, Placer::LeastLoaded, 1).unwrap());
        loaded.sort_unstable();
        // The heavy one has company only of those that came before it.
        assert!(loaded[0] <= 3, "{loaded:?}");
    }

    #[test]
    fn all_are_placed_once_in_an_order_that_follows_from_the_seed() {
        let all = functions(&[(100, 10); 50]);
        let of = |seed| place(&all, 4, 4_000, Placer::Spread, seed).unwrap();
        let mut placed: Vec<usize> = of(3).into_iter().flatten().collect();
        placed.sort_unstable();
        assert_eq!(placed, (0..50).collect::<Vec<_>>());
        assert_eq!(of(3), of(3));
        assert_ne!(of(3), of(4));
    }

    #[test]
    fn who_finds_no_room_is_named_with_what_there_is() {
        let said = place(&functions(&[(3_000, 1); 3]), 2, 4_000, Placer::Spread, 1).unwrap_err();
        let said = said.to_string();
        assert!(said.contains("on 2 machines") && said.contains("9 of 8 CPUs"), "{said}");
    }
}
