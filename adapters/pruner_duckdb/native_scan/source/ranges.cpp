#include "ranges.hpp"

#include "duckdb/common/types/value.hpp"

#include <algorithm>
#include <functional>
#include <limits>

using namespace duckdb;

namespace pruner {

namespace {

constexpr size_t kMost = 512;

template <class T>
std::vector<Range> Whole() {
	return {{std::numeric_limits<T>::min(), std::numeric_limits<T>::max()}};
}

//! All values that a key may have.
std::vector<Range> WholeOf(PhysicalType type) {
	switch (type) {
	case PhysicalType::INT8:
		return Whole<int8_t>();
	case PhysicalType::INT16:
		return Whole<int16_t>();
	case PhysicalType::INT32:
		return Whole<int32_t>();
	case PhysicalType::INT64:
		return Whole<int64_t>();
	case PhysicalType::UINT8:
		return Whole<uint8_t>();
	case PhysicalType::UINT16:
		return Whole<uint16_t>();
	case PhysicalType::UINT32:
		return Whole<uint32_t>();
	default:
		return {};
	}
}

int64_t Middle(const Range &range) {
	return range.first + int64_t((uint64_t(range.second) - uint64_t(range.first)) / 2);
}

void AddTo(std::vector<Range> &ranges, const Range &range) {
	if (!ranges.empty() && ranges.back().second == range.first - 1) {
		ranges.back().second = range.second;
	} else {
		ranges.push_back(range);
	}
}

//! The least key of a range that holds some.
template <class HOLDS>
int64_t First(Range range, HOLDS holds) {
	while (range.first < range.second) {
		auto middle = Middle(range);
		if (holds(range.first, middle)) {
			range.second = middle;
		} else {
			range.first = middle + 1;
		}
	}
	return range.first;
}

template <class HOLDS>
int64_t Last(Range range, HOLDS holds) {
	while (range.first < range.second) {
		auto middle = Middle(range);
		if (holds(middle + 1, range.second)) {
			range.first = middle + 1;
		} else {
			range.second = middle;
		}
	}
	return range.first;
}

//! Leave so many ranges at most: the widest gaps stay, for a file that has no key lies in one of them.
void CloseGaps(std::vector<Range> &ranges, size_t most) {
	if (ranges.size() <= most) {
		return;
	}
	std::vector<uint64_t> gaps;
	for (size_t i = 1; i < ranges.size(); i++) {
		gaps.push_back(uint64_t(ranges[i].first) - uint64_t(ranges[i - 1].second));
	}
	std::nth_element(gaps.begin(), gaps.begin() + (most - 1), gaps.end(), std::greater<uint64_t>());
	auto least = gaps[most - 1];
	std::vector<Range> left {ranges[0]};
	for (size_t i = 1; i < ranges.size(); i++) {
		if (uint64_t(ranges[i].first) - uint64_t(left.back().second) > least) {
			left.push_back(ranges[i]);
		} else {
			left.back().second = ranges[i].second;
		}
	}
	ranges = std::move(left);
}

} // namespace

std::vector<Range> RangesOf(const PrefixRangeFilter &filter, const LogicalType &type, size_t most) {
	auto holds = [&](int64_t low, int64_t high) {
		auto found = filter.LookupRange(Value::Numeric(type, low), Value::Numeric(type, high));
		return found != FilterPropagateResult::FILTER_ALWAYS_FALSE;
	};
	// Halved as long as some are wide, and the halves without a key dropped.
	auto parts = WholeOf(type.InternalType());
	for (bool wide = !parts.empty(); wide && parts.size() <= kMost;) {
		std::vector<Range> halves;
		wide = false;
		for (auto &part : parts) {
			auto middle = Middle(part);
			wide = wide || part.first < part.second;
			if (holds(part.first, middle)) {
				halves.emplace_back(part.first, middle);
			}
			if (middle < part.second && holds(middle + 1, part.second)) {
				halves.emplace_back(middle + 1, part.second);
			}
		}
		parts = std::move(halves);
	}
	std::vector<Range> ranges;
	for (auto &part : parts) {
		AddTo(ranges, part);
	}
	for (auto &range : ranges) {
		range = Range(First(range, holds), Last(range, holds));
	}
	CloseGaps(ranges, most);
	return ranges;
}

} // namespace pruner
