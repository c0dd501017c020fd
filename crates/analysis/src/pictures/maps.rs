//! Where in the hottest relations pages were asked for, and when.

use super::grid::Grid;
use super::{BLOCK_BINS, BlockMap, Layer};

/// Relations with a map while maps are collected. Each takes 192 KiB, so all together 6 MiB.
pub const MAX_MAPS: usize = 32;

/// How much hotter than the least hot relation with a map another one is when it takes its place: by an eighth. Without such
/// a margin two that are equally hot would drive each other out, and neither would have a map worth looking at.
const MARGIN_SHIFT: u32 = 3;

/// One relation's map while it is collected.
#[derive(Debug)]
struct Map {
    /// The relation's place in the diagnosis.
    relation: usize,
    requests: u64,
    /// A row is 2^shift blocks.
    shift: u32,
    grid: Grid,
}

impl Map {
    fn new(relation: usize) -> Self {
        Self { relation, requests: 0, shift: 0, grid: Grid::new(BLOCK_BINS, Layer::ALL.len()) }
    }

    fn observe(&mut self, column: usize, blkno: u32, layer: Layer) {
        while (blkno >> self.shift) as usize >= BLOCK_BINS {
            self.grid.fold_rows();
            self.shift += 1;
        }
        self.requests += 1;
        self.grid.add((column, (blkno >> self.shift) as usize), layer as usize);
    }
}

/// The maps of the relations that are the hottest so far.
#[derive(Debug, Default)]
pub(super) struct Maps {
    maps: Vec<Map>,
    /// GetPage by the relation's place in the diagnosis, whose bound on relations bounds this too.
    getpage: Vec<u64>,
}

impl Maps {
    /// Counts a GetPage of a relation.
    pub(super) fn observe(&mut self, relation: usize, (column, blkno): (usize, u32), layer: Layer) {
        if self.getpage.len() <= relation {
            self.getpage.resize(relation + 1, 0);
        }
        self.getpage.get_mut(relation).into_iter().for_each(|count| *count += 1);
        if let Some(map) = self.map_of(relation) {
            map.observe(column, blkno, layer);
        }
    }

    /// Puts two columns of each map into one.
    pub(super) fn fold_columns(&mut self, first_is_odd: bool) {
        self.maps.iter_mut().for_each(|map| map.grid.fold_columns(first_is_odd));
    }

    fn map_of(&mut self, relation: usize) -> Option<&mut Map> {
        if let Some(place) = self.maps.iter().position(|map| map.relation == relation) {
            return self.maps.get_mut(place);
        }
        if self.maps.len() < MAX_MAPS {
            self.maps.push(Map::new(relation));
            return self.maps.last_mut();
        }
        let getpage = &self.getpage;
        let of = |relation: usize| getpage.get(relation).copied().unwrap_or(0);
        let coldest = self.maps.iter_mut().min_by_key(|map| of(map.relation))?;
        let least = of(coldest.relation);
        if of(relation) <= least + (least >> MARGIN_SHIFT) {
            return None;
        }
        *coldest = Map::new(relation);
        Some(coldest)
    }

    /// The maps, the hottest relation's first.
    pub(super) fn finish(&self, name_of: impl Fn(usize) -> Option<String>) -> Vec<BlockMap> {
        let maps = self.maps.iter().map(|map| BlockMap {
            relation: name_of(map.relation).unwrap_or_default(),
            getpage: self.getpage.get(map.relation).copied().unwrap_or(map.requests),
            requests: map.requests,
            blocks_per_row: 1 << map.shift,
            grid: map.grid.clone(),
        });
        let mut maps: Vec<BlockMap> = maps.collect();
        maps.sort_by(|a, b| b.getpage.cmp(&a.getpage).then_with(|| a.relation.cmp(&b.relation)));
        maps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(relations: impl IntoIterator<Item = usize>) -> Vec<BlockMap> {
        let mut maps = Maps::default();
        relations.into_iter().for_each(|relation| maps.observe(relation, (0, 7), Layer::First));
        maps.finish(|relation| Some(relation.to_string()))
    }

    #[test]
    fn the_hottest_relation_has_a_map_however_late_it_comes() {
        let many = 3 * MAX_MAPS;
        let maps = seen((0..many).flat_map(|relation| vec![relation; 8]).chain(vec![many; 1000]));
        let [hottest, second, ..] = &maps[..] else { panic!("{}", maps.len()) };
        // Nine are an eighth more than eight, so the tenth is the first on the map.
        assert_eq!((hottest.relation.as_str(), hottest.getpage, hottest.requests), ("96", 1000, 991));
        assert_eq!((maps.len(), second.getpage, second.requests), (MAX_MAPS, 8, 8));
        let on_the_map: u32 = hottest.grid.cells().map(|(_, layers)| layers[Layer::First as usize]).sum();
        assert_eq!(on_the_map, 991);
    }

    #[test]
    fn relations_that_are_equally_hot_do_not_drive_each_other_out() {
        let round = 0..2 * MAX_MAPS;
        let maps = seen((0..100).flat_map(|_| round.clone()));
        assert_eq!(maps.len(), MAX_MAPS);
        assert!(maps.iter().all(|map| (map.getpage, map.requests) == (100, 100)));
    }
}
