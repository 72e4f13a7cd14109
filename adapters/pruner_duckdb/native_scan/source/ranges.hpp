//! Where the keys are that a join found, as ranges.

#pragma once

#include "duckdb/planner/filter/table_filter_functions.hpp"

namespace pruner {

using Range = std::pair<int64_t, int64_t>;

//! Ranges that hold all keys of a filter, each of which begins and ends with one; nothing where they are not numbers.
//! Where there would be more than `most`, some hold gaps.
std::vector<Range> RangesOf(const duckdb::PrefixRangeFilter &filter, const duckdb::LogicalType &type, size_t most);

} // namespace pruner
