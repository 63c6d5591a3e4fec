//! Points of a plane, of space or of the earth.

/// The system that a point's coordinates are told in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Crs {
    /// Longitude and latitude in degrees on the WGS 84 ellipsoid.
    Wgs84 = 0,
    /// Longitude, latitude and height in metres.
    Wgs84Height = 1,
    /// A plane.
    Cartesian = 2,
    /// Space.
    Cartesian3d = 3,
}

impl Crs {
    /// The number by which the EPSG registry and other databases know the system.
    pub fn srid(self) -> i64 {
        match self {
            Self::Wgs84 => 4326,
            Self::Wgs84Height => 4979,
            Self::Cartesian => 7203,
            Self::Cartesian3d => 9157,
        }
    }

    /// The system of this number.
    pub fn from_srid(srid: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|crs| crs.srid() == srid)
    }

    /// The system's name in maps and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wgs84 => "wgs-84",
            Self::Wgs84Height => "wgs-84-3d",
            Self::Cartesian => "cartesian",
            Self::Cartesian3d => "cartesian-3d",
        }
    }

    /// The system of this name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|crs| crs.name().eq_ignore_ascii_case(name))
    }

    /// Whether points have a third coordinate.
    pub fn has_z(self) -> bool {
        matches!(self, Self::Wgs84Height | Self::Cartesian3d)
    }

    /// Every system.
    pub const ALL: [Self; 4] = [
        Self::Wgs84,
        Self::Wgs84Height,
        Self::Cartesian,
        Self::Cartesian3d,
    ];
}

/// A point. On the earth `x` is the longitude and `y` the latitude, in degrees; `z` is 0 where the system has none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The system of the coordinates.
    pub crs: Crs,
    /// First coordinate, or longitude.
    pub x: f64,
    /// Second coordinate, or latitude.
    pub y: f64,
    /// Third coordinate, or height.
    pub z: f64,
}
