package lakepruner.trino.answers;

import com.fasterxml.jackson.databind.JsonNode;
import io.airlift.slice.Slices;
import io.trino.spi.type.BigintType;
import io.trino.spi.type.BooleanType;
import io.trino.spi.type.DateType;
import io.trino.spi.type.IntegerType;
import io.trino.spi.type.LongTimestampWithTimeZone;
import io.trino.spi.type.TimeZoneKey;
import io.trino.spi.type.TimestampType;
import io.trino.spi.type.TimestampWithTimeZoneType;
import io.trino.spi.type.Type;
import io.trino.spi.type.VarcharType;
import java.util.Optional;

/** Values that the service tells, as texts, and in the form in which Trino holds them. Types with others are declined. */
final class Values {
    private static final int MICROS = 6;
    private static final int PICOS_PER_MICRO = 1_000_000;

    private Values() {}

    /** Whether values of a type are told, and ordered alike here and there. */
    static boolean areOrdered(Type type) {
        return switch (type) {
            case IntegerType ignored -> true;
            case BigintType ignored -> true;
            case DateType ignored -> true;
            case TimestampType timestamp -> timestamp.getPrecision() == MICROS;
            case TimestampWithTimeZoneType instant -> instant.getPrecision() == MICROS;
            case VarcharType text -> text.isUnbounded();
            default -> false;
        };
    }

    /** The value in an answer of the service as text; empty where it is none of the type. */
    static Optional<String> text(Type type, JsonNode told) {
        String stored = told.path("type").asText("");
        JsonNode value = told.path("value");
        boolean fits = switch (type) {
            case BooleanType ignored -> stored.equals("bool") && value.isBoolean();
            case IntegerType ignored -> stored.equals("int32") && value.canConvertToInt() && value.isIntegralNumber();
            case BigintType ignored -> stored.equals("int64") && value.canConvertToLong() && value.isIntegralNumber();
            case DateType ignored -> stored.equals("date32[day]") && value.canConvertToInt() && value.isIntegralNumber();
            case TimestampType ignored -> stored.equals("timestamp[us]") && isMoment(value);
            case TimestampWithTimeZoneType ignored -> stored.startsWith("timestamp[us, tz=") && isMoment(value);
            case VarcharType ignored -> stored.endsWith("string") && value.isTextual();
            default -> false;
        };
        return fits ? Optional.of(value.asText()) : Optional.empty();
    }

    private static boolean isMoment(JsonNode value) {
        return value.isIntegralNumber() && value.canConvertToLong();
    }

    static Object of(Type type, String text) {
        return switch (type) {
            case BooleanType ignored -> Boolean.valueOf(text);
            case VarcharType ignored -> Slices.utf8Slice(text);
            case TimestampWithTimeZoneType ignored -> {
                long micros = Long.parseLong(text);
                yield LongTimestampWithTimeZone.fromEpochMillisAndFraction(
                        Math.floorDiv(micros, 1000),
                        (int) Math.floorMod(micros, 1000L) * PICOS_PER_MICRO,
                        TimeZoneKey.UTC_KEY);
            }
            default -> Long.valueOf(text);
        };
    }
}
