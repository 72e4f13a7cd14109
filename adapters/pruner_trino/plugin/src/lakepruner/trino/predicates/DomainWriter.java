package lakepruner.trino.predicates;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.trino.spi.predicate.Domain;
import io.trino.spi.predicate.EquatableValueSet;
import io.trino.spi.predicate.Range;
import io.trino.spi.predicate.SortedRangeSet;
import io.trino.spi.predicate.ValueSet;
import io.trino.spi.type.DoubleType;
import io.trino.spi.type.RealType;
import io.trino.spi.type.Type;
import java.util.Optional;

/** The values that a domain allows, NULL aside. */
final class DomainWriter {
    /** Longer lists are sent as the range that spans them. */
    private static final int VALUES = 1_000;

    private DomainWriter() {}

    static ObjectNode values(Domain domain) {
        Type type = domain.getType();
        ValueSet values = domain.simplify(VALUES).getValues();
        ObjectNode node = JsonNodeFactory.instance.objectNode();
        boolean written = true;
        if (values.isAll()) {
            node.put("kind", "all");
        } else if (values.isNone()) {
            node.put("kind", "none");
        } else if (values instanceof SortedRangeSet ranges) {
            node.put("kind", "ranges");
            written = write(node.putArray("ranges"), type, ranges);
        } else if (values instanceof EquatableValueSet set) {
            node.put("kind", "discrete");
            node.put("inclusive", set.inclusive());
            written = write(node.putArray("values"), type, set);
        } else {
            written = false;
        }
        return written ? node : opaque(type);
    }

    /**
     * Whether {@link #values} writes the very values: neither a range that spans more, nor floating point, of which a
     * partition's value may be another than that of its files.
     */
    static boolean isExact(Domain domain) {
        boolean isFloating = domain.getType() instanceof RealType || domain.getType() instanceof DoubleType;
        return !isFloating && domain.simplify(VALUES).equals(domain);
    }

    private static ObjectNode opaque(Type type) {
        ObjectNode node = JsonNodeFactory.instance.objectNode();
        return node.put("kind", "opaque").put("text", "values of type " + type.getDisplayName());
    }

    private static boolean write(ArrayNode list, Type type, SortedRangeSet ranges) {
        for (Range range : ranges.getOrderedRanges()) {
            ObjectNode node = list.addObject();
            boolean low = bound(node, "low", type, range.getLowValue(), range.isLowInclusive());
            boolean high = bound(node, "high", type, range.getHighValue(), range.isHighInclusive());
            if (!low || !high) {
                return false;
            }
        }
        return true;
    }

    private static boolean bound(ObjectNode range, String side, Type type, Optional<Object> value, boolean inclusive) {
        if (value.isEmpty()) {
            range.putNull(side);
            return true;
        }
        Optional<JsonNode> written = ValueWriter.value(type, value.get());
        written.ifPresent(found -> range.putObject(side).put("inclusive", inclusive).set("value", found));
        return written.isPresent();
    }

    private static boolean write(ArrayNode list, Type type, EquatableValueSet set) {
        for (Object value : set.getValues()) {
            Optional<JsonNode> written = ValueWriter.value(type, value);
            if (written.isEmpty()) {
                return false;
            }
            list.add(written.get());
        }
        return true;
    }
}
