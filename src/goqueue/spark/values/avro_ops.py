"""The operations of a program over Avro payloads; `avro_scan.py` runs them."""

# --- operations, and their operands ---
LONG = 1  # column, domain, flag, low, high
BYTES = 2  # column, domain, flag
UNION = 3  # number of branches, node of each
RECORD = 4  # column, domain, number of steps, node of each
NULL = 5  # first column, column behind the last, domain
DOUBLE = 6  # column, domain, flag
FLOAT = 7  # column, domain, flag
BOOLEAN = 8  # column, domain, flag
FIXED = 9  # column, domain, flag, size
ENUM = 10  # column, domain, flag, number of symbols, the reader's number of each or -1
ARRAY = 11  # column, domain, domain of the items, node of an item
MAP = 12  # column, domain, domain of the items, node of a value, column of the keys
CONSTANT = 13  # column, domain, flag, cell
CONSTANT_LIST = 14  # column, domain, domain of the items, number of items, node of each
MEMBER = 15  # column, domain, first column, column behind the last, node
STEPS = 16  # number of steps, node of each
SKIP_NUMBER = 20
SKIP_BYTES = 21
SKIP_FIXED = 22  # size
SKIP_ARRAY = 23  # node of an item
SKIP_MAP = 24  # node of a value
FAIL = 25

# --- how to read a cell ---
PLAIN = 1
WHOLE_NUMBER = 2  # of a column of fractions
SINGLE = 3  # bits of a float, of a column of fractions

BAD = -1
FULL = -2
