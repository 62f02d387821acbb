# Checks that station.toml holds what the station reads.
for key in interval_seconds offset_cm flood_level_cm; do
  grep -Eq "^$key = -?[0-9]+\$" station.toml || { echo "station.toml: $key is missing or no whole number"; exit 1; }
done
echo "station.toml is well formed"
