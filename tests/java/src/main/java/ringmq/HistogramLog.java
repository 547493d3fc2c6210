package ringmq;

import java.io.File;
import java.io.FileNotFoundException;
import java.util.Map;
import java.util.TreeMap;
import org.HdrHistogram.EncodableHistogram;
import org.HdrHistogram.Histogram;
import org.HdrHistogram.HistogramLogReader;

/** Prints of each tag of a histogram log: intervals, values, median, 99th percentile, greatest value. */
public final class HistogramLog {
    private HistogramLog() {}

    public static void main(String[] arguments) throws FileNotFoundException {
        Map<String, Histogram> totals = new TreeMap<>();
        Map<String, Integer> intervals = new TreeMap<>();
        try (HistogramLogReader reader = new HistogramLogReader(new File(arguments[0]))) {
            while (reader.hasNext()) {
                EncodableHistogram interval = reader.nextIntervalHistogram();
                if (!(interval instanceof Histogram)) {
                    throw new IllegalStateException("an interval that is no histogram of whole numbers: " + interval);
                }
                if (interval.getEndTimeStamp() < interval.getStartTimeStamp()) {
                    throw new IllegalStateException("an interval that ends before it starts");
                }
                Histogram values = (Histogram) interval;
                Histogram total = totals.computeIfAbsent(values.getTag(), tag -> new Histogram(3));
                total.setAutoResize(true);
                total.add(values);
                intervals.merge(values.getTag(), 1, Integer::sum);
            }
        }
        totals.forEach((tag, total) -> System.out.println(tag + " " + intervals.get(tag) + " " + total.getTotalCount()
            + " " + total.getValueAtPercentile(50) + " " + total.getValueAtPercentile(99) + " " + total.getMaxValue()));
    }
}
