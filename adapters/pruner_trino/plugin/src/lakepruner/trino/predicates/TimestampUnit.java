package lakepruner.trino.predicates;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.StreamSupport;

/** The precision to which a scan's timestamps are rounded when they are read: that of its columns' types. */
public final class TimestampUnit {
    private static final Pattern TYPE = Pattern.compile("timestamp\\((\\d+)\\).*");

    private TimestampUnit() {}

    public static Optional<String> coarsest(JsonNode columns) {
        OptionalInt digits = StreamSupport.stream(columns.spliterator(), false)
                .map(column -> TYPE.matcher(column.get("type").asText()))
                .filter(Matcher::matches)
                .mapToInt(found -> Integer.parseInt(found.group(1)))
                .min();
        return digits.isEmpty() ? Optional.empty() : Optional.of(unit(digits.getAsInt()));
    }

    private static String unit(int digits) {
        if (digits < 3) {
            return "s";
        }
        if (digits < 6) {
            return "ms";
        }
        return digits < 9 ? "us" : "ns";
    }
}
