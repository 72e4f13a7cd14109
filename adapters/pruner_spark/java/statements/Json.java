package pruner.spark.statements;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;

/** Writes JSON for the planner. Each Jackson mapper learns once how to write a class, so there is only one mapper. */
public final class Json {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  private Json() {}

  public static String of(Object value) throws IOException {
    return MAPPER.writeValueAsString(value);
  }
}
