package pruner.spark.scans;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import pruner.spark.indexes.SliceKeys;
import scala.collection.Iterator;

/** One listing on its way to a scan: the planner is given the predicate and says what to drop, once. */
public final class Scan {
  private final String table;
  private final long number;
  private final SparkSession reader;
  private final FileIndex index;
  private final SliceKeys keys;
  private final Expression predicate;
  private final Asking asking;
  private final Map told;
  private final boolean whole;
  private $SEQ$ listing;
  private Slices known;
  private int[] ordinals;
  private String answer;
  private boolean closed;
  private int total;
  private int unknown;
  private int dropped;

  /** A scan that is `whole` reads all files whatever the planner says, which only records it. */
  public Scan(
      String table,
      long number,
      SparkSession reader,
      FileIndex index,
      SliceKeys keys,
      Expression predicate,
      Asking asking,
      Map told,
      boolean whole) {
    this.table = table;
    this.number = number;
    this.reader = reader;
    this.index = index;
    this.keys = keys;
    this.predicate = predicate;
    this.asking = asking;
    this.told = told;
    this.whole = whole;
  }

  /** The relation's name with the planner and the scan's number. */
  public String head() {
    return table + "\t" + number + "\t";
  }

  public long number() {
    return number;
  }

  /** The index whose listing it is; null where no index lists the files. */
  public FileIndex index() {
    return index;
  }

  public boolean isWhole() {
    return whole;
  }

  /** See Asked. */
  public String asked() throws IOException {
    return Asked.of(reader, predicate, asking == null ? null : asking.question, told);
  }

  /** All filters of the scan as one expression, or null. */
  public Expression predicate() {
    return predicate;
  }

  /** What is demanded of the rows of the listed files, or null: see Asking. */
  public Expression beyond() {
    return asking.beyond;
  }

  /**
   * Leave out the files of the slices whose bit is set in `drop` (bit k % 8 of byte k / 8 is ordinal k of `slices`).
   * A file whose slice is not among `slices` stays. Returns how many files the listing had, how many of them were
   * unknown and how many were dropped. Waits for the listing.
   */
  public synchronized String drop(Slices slices, byte[] drop) throws InterruptedException {
    while (listing == null && !closed) {
      wait();
    }
    if (closed) {
      return "closed";
    }
    place(slices);
    total = 0;
    unknown = 0;
    dropped = 0;
    List pruned = new ArrayList();
    Iterator partitions = listing.iterator();
    while (partitions.hasNext()) {
      PartitionDirectory partition = prune((PartitionDirectory) partitions.next(), drop);
      if (partition != null) {
        pruned.add(partition);
      }
    }
    if (dropped > 0) {
      listing = PythonUtils.toSeq(pruned);
      known = null;
    }
    return total + " " + unknown + " " + dropped;
  }

  /** The same, with what is proved about all rows of the files that are left out (see Shortcuts): both or neither. */
  public synchronized String drop(Slices slices, byte[] drop, String answer) throws InterruptedException {
    String counted = drop(slices, drop);
    this.answer = closed ? null : answer;
    return counted;
  }

  /**
   * The slices that are listed exactly once, a bit for each: those listed twice have their rows read twice. Waits for
   * the listing; null where it failed or the scan no longer waits.
   */
  public synchronized byte[] listedOnce(Slices slices) throws InterruptedException {
    while (listing == null && !closed) {
      wait();
    }
    if (closed) {
      return null;
    }
    place(slices);
    byte[] once = new byte[(slices.count() + 7) / 8];
    byte[] again = new byte[once.length];
    for (int k = 0; k < ordinals.length; k++) {
      int ordinal = ordinals[k];
      if (ordinal >= 0) {
        int bit = 1 << (ordinal & 7);
        again[ordinal >> 3] |= once[ordinal >> 3] & bit;
        once[ordinal >> 3] |= bit;
      }
    }
    for (int k = 0; k < once.length; k++) {
      once[k] &= ~again[k];
    }
    return once;
  }

  /** What was proved, once the files have been returned. */
  public synchronized String answer() {
    return answer;
  }

  /** Finds the ordinals of the listed files, once. */
  private void place(Slices slices) {
    if (known == slices) {
      return;
    }
    int[] found = new int[64];
    int count = 0;
    Iterator partitions = listing.iterator();
    while (partitions.hasNext()) {
      PartitionDirectory partition = (PartitionDirectory) partitions.next();
      Iterator files = partition.files().iterator();
      while (files.hasNext()) {
        if (count == found.length) {
          found = Arrays.copyOf(found, 2 * count);
        }
        found[count++] = slices.ordinal(keys.of(partition, (FileStatusWithMetadata) files.next()));
      }
    }
    ordinals = Arrays.copyOf(found, count);
    known = slices;
  }

  private PartitionDirectory prune(PartitionDirectory partition, byte[] drop) {
    List kept = new ArrayList();
    int before = dropped;
    Iterator files = partition.files().iterator();
    while (files.hasNext()) {
      FileStatusWithMetadata file = (FileStatusWithMetadata) files.next();
      int ordinal = ordinals[total++];
      if (ordinal < 0) {
        unknown++;
      }
      if (!whole && ordinal >= 0 && (drop[ordinal >> 3] & (1 << (ordinal & 7))) != 0) {
        dropped++;
      } else {
        kept.add(file);
      }
    }
    if (dropped == before) {
      return partition;
    }
    return kept.isEmpty() ? null : new PartitionDirectory(partition.values(), PythonUtils.toSeq(kept));
  }

  /** Sets the listed files; null where they could not be listed. */
  public synchronized void listed($SEQ$ files) {
    listing = files;
    closed = closed || files == null;
    notifyAll();
  }

  /** What is left of the listing; the planner's answers from now on are too late. */
  public synchronized $SEQ$ close() {
    closed = true;
    return listing;
  }

  public synchronized void abandon() {
    closed = true;
    answer = null;
  }
}
