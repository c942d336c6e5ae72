// SPDX-License-Identifier: GPL-2.0-only
package metasched;

/** Generated sources: a class with a type parameter, and methods with a loop, a choice and a list. */
final class Source {
    private Source() {}

    static String java(int number, int methods) {
        StringBuilder text = new StringBuilder("import java.util.*;\n");
        text.append("public final class Shape").append(number).append("<T extends Comparable<T>> {\n");
        text.append("    private final List<T> items = new ArrayList<>();\n");
        text.append("    static final class Pair<A, B> { A first; B second; }\n");
        for (int i = 0; i < methods; i++) {
            text.append(String.format(
                    "    public List<Pair<T, Integer>> group%d(int base, String key) {%n"
                            + "        List<Pair<T, Integer>> pairs = new ArrayList<>();%n"
                            + "        int sum = base;%n"
                            + "        for (T item : items) {%n"
                            + "            switch (item.hashCode() %% 3) {%n"
                            + "                case 0: sum += %d; break;%n"
                            + "                case 1: sum += key.length(); break;%n"
                            + "                default: sum += item.toString().length();%n"
                            + "            }%n"
                            + "            Pair<T, Integer> pair = new Pair<>();%n"
                            + "            pair.first = item;%n"
                            + "            pair.second = sum;%n"
                            + "            pairs.add(pair);%n"
                            + "        }%n"
                            + "        return pairs;%n"
                            + "    }%n",
                    i, i));
        }
        return text.append("}\n").toString();
    }

    static String scala(int number, int methods) {
        StringBuilder text = new StringBuilder();
        text.append("final class Shape").append(number).append("[T: Ordering](items: List[T]):\n");
        text.append("  case class Pair[A, B](first: A, second: B)\n");
        for (int i = 0; i < methods; i++) {
            text.append(String.format(
                    "  def group%d(base: Int, key: String): Map[String, List[Pair[T, Int]]] =%n"
                            + "    var sum = base%n"
                            + "    for item <- items do%n"
                            + "      sum += (item.hashCode %% 3 match%n"
                            + "        case 0 => %d%n"
                            + "        case 1 => sum%n"
                            + "        case _ => item.toString.length)%n"
                            + "    val total = sum%n"
                            + "    items.sorted.map(item => Pair(item, total + item.hashCode))%n"
                            + "      .groupBy(pair => key + pair.second)%n",
                    i, i));
        }
        return text.toString();
    }
}
