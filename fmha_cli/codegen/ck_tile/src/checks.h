// Every value of the argument block passes through here on its way to CK: nothing is narrowed unseen, and the first
// field (in the block's order) that cannot be used is named.
struct Checks {
  int status = STATUS_OK;
  int field = NO_FIELD;

  void refuse(int why, int where) {
    if (status == STATUS_OK || where < field) {
      status = why;
      field = where;
    }
  }
  void require(bool good, int where) {
    if (!good) refuse(STATUS_BAD_ARGUMENT, where);
  }
  // A product that CK's device code forms in its index type.
  void product(int64_t left, int64_t right, int where) {
    ck_tile::index_t out;
    if (__builtin_mul_overflow(left, right, &out)) refuse(STATUS_OVERFLOW, where);
  }
};

// An integer on its way into a parameter of whatever integer type CK gave it.
struct Narrow {
  int64_t value;
  int field;
  Checks& checks;

  template <typename T>
    requires(std::is_integral_v<T>)
  operator T() const {
    if (!std::in_range<std::conditional_t<std::is_same_v<T, bool>, unsigned char, T>>(value) ||
        (std::is_same_v<T, bool> && value != 0 && value != 1)) {
      checks.refuse(STATUS_OVERFLOW, field);
      return T{};
    }
    return static_cast<T>(value);
  }
};

#define IN(name) (Narrow{a.name, FIELD_##name, checks})
#define REQUIRE(name, condition) checks.require((condition), FIELD_##name)
#define PRODUCT(name, left, right) checks.product((left), (right), FIELD_##name)

// Blocks along one axis are counted by CK in its index type, rounding up: room is left for one tile.
inline constexpr int64_t LARGEST_EXTENT = std::numeric_limits<ck_tile::index_t>::max() - 65536;

#define EXTENT(name, least)                                                      \
  do {                                                                           \
    REQUIRE(name, a.name >= (least));                                            \
    if (a.name > LARGEST_EXTENT) checks.refuse(STATUS_OVERFLOW, FIELD_##name);   \
  } while (0)
