package lakepruner.trino.answers;

import io.trino.spi.connector.SortOrder;
import io.trino.spi.predicate.Domain;
import io.trino.spi.predicate.Range;
import io.trino.spi.predicate.ValueSet;
import io.trino.spi.type.Type;

/** The values that the first rows of an order can have, once enough rows surely reach one. */
public final class Threshold {
    private Threshold() {}

    /** Rows equal to the threshold stay, for a further column may decide between them, and so does NULL where it comes first. */
    public static Domain domain(Type type, String threshold, SortOrder order) {
        Object value = Values.of(type, threshold);
        Range range = order.isAscending() ? Range.lessThanOrEqual(type, value) : Range.greaterThanOrEqual(type, value);
        return Domain.create(ValueSet.ofRanges(range), order.isNullsFirst());
    }
}
